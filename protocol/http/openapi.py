"""OpenAPI 3.1 documents, from tables of endpoints and the structs of their bodies.

**Invariant:** the same tables, structs and credentials give the same bytes. Nothing about a struct
is written twice: names, types and limits are those of its fields, and explanations are its
docstring and its fields' ``msgspec.Meta``.

Source: OpenAPI 3.1.0; JSON Schema 2020-12.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from authorizerd.protocol.http.endpoints import (
    CERTIFICATE,
    HEADERS,
    JSON,
    OPENAPI_PATH,
    REQUEST_ID,
    SCHEMES,
    SHARED_ANSWERS,
    TOKEN,
    TOKEN_IN_QUERY,
    Answer,
    Endpoint,
    Parameter,
)

_SCHEMAS: Final = "#/components/schemas/"
_VERSION: Final = "1"
"""The version of the paths, which begin with /v1 or end with it."""

_ATTRIBUTES: Final = re.compile(r"\n\nAttributes:\n((?: {4}.*(?:\n|\Z))+)")
_ATTRIBUTE: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)

_Json = dict[str, Any]
_SchemaOf = Callable[[Any], _Json]


def describe_port(
    title: str,
    description: str,
    endpoints: Sequence[Endpoint],
    accepted: Collection[str] | None = None,
) -> bytes:
    """Return the OpenAPI document of one port, as compact JSON.

    Args:
        accepted: the names in ``SCHEMES`` that the port accepts; empty if it trusts all callers.
            None describes every port of this kind.

    Raises:
        ValueError: two structs have the same name.
    """
    if accepted is not None and not accepted:
        endpoints = [
            msgspec.structs.replace(each, answers=each.if_all_trusted or each.answers)
            for each in endpoints
        ]
    types = [REQUEST_ID.type, *(each for endpoint in endpoints for each in _types_of(endpoint))]
    schemas, components = msgspec.json.schema_components(types, ref_template=f"{_SCHEMAS}{{name}}")
    schema_of = dict(zip(types, map(_tidy, schemas), strict=True)).__getitem__
    paths: dict[str, _Json] = {}
    for endpoint in endpoints:
        operations = paths.setdefault(endpoint.path, {})
        for method in endpoint.methods:
            operations[method.lower()] = _operation(endpoint, method, schema_of, accepted)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": title, "description": description, "version": _VERSION},
            "servers": [{"url": "/"}],
            "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in endpoints)],
            "paths": paths,
            "components": {
                "schemas": dict(sorted(_name_components(components))),
                "responses": {
                    name: _response([answer], schema_of) for name, answer in SHARED_ANSWERS.items()
                },
                "parameters": {REQUEST_ID.name: _parameter(REQUEST_ID, schema_of)},
                "headers": {
                    name: {"description": text, "schema": {"type": "string"}}
                    for name, text in HEADERS.items()
                },
                "securitySchemes": SCHEMES,
            },
        }
    )


def accepted_schemes(*, has_tokens: bool, has_client_auth: bool) -> frozenset[str]:
    """Return the names in ``SCHEMES`` that a port accepts."""
    tokens = (TOKEN, TOKEN_IN_QUERY) if has_tokens else ()
    return frozenset((*tokens, CERTIFICATE) if has_client_auth else tokens)


def _types_of(endpoint: Endpoint) -> Iterator[Any]:
    if endpoint.request is not None:
        yield endpoint.request
    for parameter in endpoint.parameters:
        yield parameter.type
    for answer in endpoint.answers:
        yield from (*answer.bodies, *answer.parts)


def _operation(
    endpoint: Endpoint, method: str, schema_of: _SchemaOf, accepted: Collection[str] | None
) -> _Json:
    """Return an operation object. That of HEAD has GET's answers, whose bodies are not sent."""
    is_head = method == "HEAD"
    operation: _Json = {
        "operationId": f"{endpoint.name}Head" if is_head else endpoint.name,
        "tags": [endpoint.tag],
        "summary": f"{endpoint.summary} (without the body)" if is_head else endpoint.summary,
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    own = [_parameter(each, schema_of) for each in endpoint.parameters]
    operation["parameters"] = [*own, {"$ref": f"#/components/parameters/{REQUEST_ID.name}"}]
    if endpoint.request is not None:
        operation["requestBody"] = _request_body(endpoint, schema_of)
    operation["responses"] = _responses(endpoint, schema_of)
    operation["security"] = _requirements(endpoint, accepted)
    return operation


def _parameter(parameter: Parameter, schema_of: _SchemaOf) -> _Json:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.meaning,
        "required": parameter.required,
        "schema": schema_of(parameter.type),
    }


def _request_body(endpoint: Endpoint, schema_of: _SchemaOf) -> _Json:
    schema = dict(schema_of(endpoint.request))
    if endpoint.required:
        schema["required"] = list(endpoint.required)
    content: _Json = {"schema": schema}
    if endpoint.example is not None:
        content["example"] = endpoint.example
    return {"required": True, "content": {JSON: content}}


def _responses(endpoint: Endpoint, schema_of: _SchemaOf) -> _Json:
    """Return the answers by status; those that only the server gives are components."""
    own: dict[int, list[Answer]] = {}
    for answer in endpoint.answers:
        own.setdefault(answer.status, []).append(answer)
    responses: dict[int, _Json] = {}
    for name, shared in SHARED_ANSWERS.items():
        status = shared.status
        if status == HTTPStatus.UNAUTHORIZED and not endpoint.credentials:
            continue
        if status in own:
            own[status].append(shared)
        else:
            responses[status] = {"$ref": f"#/components/responses/{name}"}
    for status, answers in own.items():
        responses[status] = _response(answers, schema_of)
    return {str(status): responses[status] for status in sorted(responses)}


def _response(answers: Sequence[Answer], schema_of: _SchemaOf) -> _Json:
    """Return the response object for all answers of one status."""
    response: _Json = {"description": " Also: ".join(answer.meaning for answer in answers)}
    names = sorted({REQUEST_ID.name, *(name for answer in answers for name in answer.headers)})
    response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    response["content"] = {
        answer.content_type: {"schema": _body_schema(answer, schema_of)}
        for answer in reversed(answers)  # of answers with the same type, the first one counts
    }
    return response


def _body_schema(answer: Answer, schema_of: _SchemaOf) -> _Json:
    if answer.content_type != JSON:
        # OpenAPI 3.1 has no word for the parts of a stream; 3.2 calls them itemSchema.
        parts = [schema_of(part) for part in answer.parts]
        return {"type": "string", "x-itemSchema": {"oneOf": parts}} if parts else {"type": "string"}
    schemas = [schema_of(body) for body in answer.bodies]
    if not schemas:
        return {"type": "object"}
    return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}


def _requirements(endpoint: Endpoint, accepted: Collection[str] | None) -> list[_Json]:
    """Return the alternatives for identifying a caller; one that is empty means none."""
    if accepted is None:
        return [{}, *({name: []} for name in endpoint.credentials)] if endpoint.credentials else []
    return [{name: []} for name in endpoint.credentials if name in accepted]


def _name_components(components: dict[str, _Json]) -> Iterator[tuple[str, _Json]]:
    for name, schema in components.items():
        if "." in name:  # msgspec's full names are for structs whose names are equal
            raise ValueError(f"two structs of the API have the name of {name}: rename one")
        _move_explanations(schema)
        yield name.removeprefix("_"), _tidy(schema)


def _move_explanations(schema: _Json) -> None:
    """Move what a struct's docstring lists below ``Attributes:`` to the fields."""
    text = inspect.cleandoc(schema.get("description", ""))
    listed = _ATTRIBUTES.search(text)
    if listed is None:
        return
    schema["description"] = text[: listed.start()] + text[listed.end() :]
    for attribute in _ATTRIBUTE.finditer(listed[1]):
        schema["properties"][attribute[1]].setdefault("description", attribute[2])


def _tidy(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    """Return a part of a schema without private names, empty defaults and lines of source code."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: _tidy(value) for key, value in schema.items()}
    if tidy.get("default", ...) is None:
        del tidy["default"]
    if isinstance(title := tidy.get("title"), str):
        tidy["title"] = title.removeprefix("_")
    if isinstance(ref := tidy.get("$ref"), str):
        tidy["$ref"] = _SCHEMAS + ref.removeprefix(_SCHEMAS).removeprefix("_")
    if isinstance(text := tidy.get("description"), str):
        tidy["description"] = _to_markdown(text)
    if tidy.get("required") == []:
        del tidy["required"]
    return tidy


def _to_markdown(docstring: str) -> str:
    """Return a docstring with one line per paragraph."""
    paragraphs = inspect.cleandoc(docstring).replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


DOCUMENT_ENDPOINT: Final = Endpoint(
    path=OPENAPI_PATH,
    methods=("GET", "HEAD"),
    name="describeApi",
    tag="description",
    summary="Describe this port",
    description="The answer is an OpenAPI 3.1 document: this one, with the credentials that the"
    " port accepts.",
    answers=(Answer(200, "The document.", media_type=JSON),),
    credentials=(),
)
