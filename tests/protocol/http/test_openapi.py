"""OpenAPI documents from tables and structs."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest

from authorizerd.protocol.http.endpoints import (
    CERTIFICATE,
    GET,
    POST,
    SHARED_ANSWERS,
    TOKEN,
    Answer,
    Endpoint,
    Parameter,
    one_of,
)
from authorizerd.protocol.http.openapi import accepted_schemes, describe_port


class Colour(Enum):
    """A colour."""

    RED = "red"


class _Inner(msgspec.Struct):
    """A part
    of ``Outer``.
    """

    colour: Colour | None = None


class Other(msgspec.Struct):
    """Another one."""

    count: Annotated[int, msgspec.Meta(ge=0)]


class Outer(msgspec.Struct, rename="camel"):
    """The whole.

    It has parts.
    """

    first_part: _Inner
    parts: list[Annotated[Any, one_of(Other)]]
    text: Annotated[str, msgspec.Meta(description="For people.")] = "x"


class Listing(msgspec.Struct):
    """A list.

    Attributes:
        first: the first one, or
            none.
        second: explained elsewhere.
    """

    first: int
    second: Annotated[int, msgspec.Meta(description="The second one.")]


def same_name() -> type[msgspec.Struct]:
    return msgspec.defstruct("Other", [("x", int)], module="elsewhere")


def endpoint(*answers: Answer, **fields: Any) -> Endpoint:  # noqa: ANN401 - as its fields
    defaults = {"path": "/a", "methods": POST, "name": "a", "tag": "t", "summary": "Do it"}
    return Endpoint(**{**defaults, "answers": answers, **fields})


def described(*endpoints: Endpoint, accepted: frozenset[str] | None = None) -> Any:  # noqa: ANN401
    return json.loads(describe_port("title", "text", endpoints, accepted))


def test_structs_become_schemas() -> None:
    document = described(endpoint(Answer(200, "Done.", Outer, parts=(Other,))))
    assert document["components"]["schemas"] == {
        "Colour": {"title": "Colour", "description": "A colour.", "enum": ["red"]},
        "Inner": {
            "title": "Inner",
            "description": "A part of `Outer`.",
            "type": "object",
            "properties": {
                "colour": {"anyOf": [{"$ref": "#/components/schemas/Colour"}, {"type": "null"}]}
            },
        },
        "Other": {
            "title": "Other",
            "description": "Another one.",
            "type": "object",
            "properties": {"count": {"type": "integer", "minimum": 0}},
            "required": ["count"],
        },
        "Outer": {
            "title": "Outer",
            "description": "The whole.\n\nIt has parts.",
            "type": "object",
            "properties": {
                "firstPart": {"$ref": "#/components/schemas/Inner"},
                "parts": {
                    "type": "array",
                    "items": {"oneOf": [{"$ref": "#/components/schemas/Other"}]},
                },
                "text": {"type": "string", "description": "For people.", "default": "x"},
            },
            "required": ["firstPart", "parts"],
        },
    }


def test_attributes_of_a_docstring_explain_the_fields() -> None:
    schema = described(endpoint(Answer(200, "", Listing)))["components"]["schemas"]["Listing"]
    assert schema["description"] == "A list."
    assert schema["properties"] == {
        "first": {"type": "integer", "description": "the first one, or none."},
        "second": {"type": "integer", "description": "The second one."},
    }


def test_equal_names_of_structs_are_rejected() -> None:
    with pytest.raises(ValueError, match="two structs of the API have the name of"):
        described(endpoint(Answer(200, "", Other), Answer(201, "", same_name())))


def test_body_has_the_fields_that_the_endpoint_requires() -> None:
    document = described(endpoint(request=Outer, required=("text",), example={"text": "y"}))
    assert document["paths"]["/a"]["post"]["requestBody"] == {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Outer", "required": ["text"]},
                "example": {"text": "y"},
            }
        },
    }


def test_answers_of_one_status_are_joined() -> None:
    """The server answers 503 too, and its text stays next to the endpoint's own."""
    answers = Answer(503, "Not ready."), Answer(503, "Or this.", Other)
    responses = described(endpoint(*answers))["paths"]["/a"]["post"]["responses"]
    joined = responses["503"]
    assert joined["description"].startswith(
        "Not ready. Also: Or this. Also: The daemon has too much to do"
    )
    assert joined["content"] == {
        "text/plain": {"schema": {"type": "string"}},
        "application/json": {"schema": {"$ref": "#/components/schemas/Other"}},
    }
    assert joined["headers"] == {
        name: {"$ref": f"#/components/headers/{name}"} for name in ("Retry-After", "X-Request-ID")
    }
    assert [int(status) for status in responses] == sorted(map(int, responses))


def test_every_shared_answer_is_in_every_operation() -> None:
    operation = described(endpoint(methods=GET))["paths"]["/a"]["head"]
    assert set(operation["responses"]) == {str(answer.status) for answer in SHARED_ANSWERS.values()}
    assert operation["responses"]["413"] == {"$ref": "#/components/responses/BodyTooLong"}


def test_several_structs_of_one_status_are_alternatives() -> None:
    answer = Answer(200, "Done.", (Outer, Other))
    content = described(endpoint(answer))["paths"]["/a"]["post"]["responses"]["200"]["content"]
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("Outer", "Other")]
    assert content == {"application/json": {"schema": {"oneOf": refs}}}


def test_parts_of_a_stream_are_described() -> None:
    """OpenAPI 3.1 cannot say it, so an extension does."""
    answer = Answer(200, "They follow.", parts=(Outer, Other), media_type="text/event-stream")
    content = described(endpoint(answer))["paths"]["/a"]["post"]["responses"]["200"]["content"]
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("Outer", "Other")]
    assert content == {
        "text/event-stream": {"schema": {"type": "string", "x-itemSchema": {"oneOf": refs}}}
    }


@pytest.mark.parametrize(
    ("accepted", "security"),
    [
        (None, [{}, {"token": []}, {"certificate": []}]),
        (frozenset[str](), []),
        (accepted_schemes(has_tokens=True, has_client_auth=False), [{"token": []}]),
        (accepted_schemes(has_tokens=False, has_client_auth=True), [{"certificate": []}]),
        (frozenset({TOKEN, CERTIFICATE}), [{"token": []}, {"certificate": []}]),
    ],
)
def test_operation_names_the_credentials_that_the_port_accepts(
    accepted: frozenset[str] | None, security: list[dict[str, list[str]]]
) -> None:
    paths = described(endpoint(), endpoint(path="/b", credentials=()), accepted=accepted)["paths"]
    assert paths["/a"]["post"]["security"] == security
    assert paths["/b"]["post"]["security"] == []
    assert "401" in paths["/a"]["post"]["responses"]
    assert "401" not in paths["/b"]["post"]["responses"]


def test_parameters_are_described() -> None:
    limit = Parameter("limit", "query", "The most.", Annotated[int, msgspec.Meta(ge=1)])
    document = described(endpoint(Answer(200, "Done."), parameters=(limit,)))
    operation = document["paths"]["/a"]["post"]
    assert operation["parameters"][0] == {
        "name": "limit",
        "in": "query",
        "description": "The most.",
        "required": False,
        "schema": {"type": "integer", "minimum": 1},
    }
    assert operation["parameters"][1:] == [{"$ref": "#/components/parameters/X-Request-ID"}]
    for described_headers in (
        operation["responses"]["200"]["headers"],
        document["components"]["responses"]["Unidentified"]["headers"],
    ):
        assert "X-Request-ID" in described_headers


def test_a_document_depends_only_on_its_tables() -> None:
    tables = endpoint(Answer(200, "Done.", Outer, parts=(Other,)))
    assert describe_port("t", "d", [tables]) == describe_port("t", "d", [tables])
