"""The checker of OpenAPI documents accepts what is described, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from authorizerd.protocol.http.messages import EVENTS, JSON, LINES
from tests.support.api_description import ApiDescription, Exchange

COUNTED = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
A_TOTAL = {"$ref": "#/components/schemas/Total"}
PARTS = {"type": "string", "x-itemSchema": {"oneOf": [A_TOTAL]}}


def response(schema: Any, media_type: str = "text/plain") -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"headers": {"X-Request-ID": {}}, "content": {media_type: {"schema": schema}}}


def operation(schema: Any = None, media_type: str = "text/plain", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    shared = {"$ref": "#/components/responses/TooLong"}
    busy = response({"type": "string"})
    busy["headers"]["Retry-After"] = {}
    refused = {"400": response({"type": "string"}), "413": shared, "503": busy}
    return {
        "responses": {"200": response(schema or {"type": "string"}, media_type)} | refused
    } | fields


GET = {"get": operation(), "head": operation()}
DOCUMENT = json.dumps(
    {
        "paths": {
            "/sum": {
                "post": operation(
                    A_TOTAL, JSON, requestBody={"content": {JSON: {"schema": COUNTED}}}
                )
            },
            "/state": GET,
            "/lines": {"get": operation(PARTS, LINES)},
            "/events": {"get": operation(PARTS, EVENTS)},
            "/below/{rest}": GET,
        },
        "components": {
            "schemas": {"Total": TOTAL},
            "responses": {"TooLong": response({"type": "string"})},
        },
    }
).encode()


def exchange(method: str, path: str, answer: bytes = b"a line\n", **fields: object) -> Exchange:
    defaults = {"body": b"", "status": 200, "headers": {"Content-Type": "text/plain; charset=x"}}
    return Exchange(method=method, path=path, answer=answer, **{**defaults, **fields})  # type: ignore[arg-type] # as in defaults


def headers(content_type: str, **more: str) -> dict[str, str]:
    return {"content-type": content_type} | {
        name.replace("_", "-"): value for name, value in more.items()
    }


SUM = exchange(
    "POST", "/sum", b'{"total":1}', body=b'{"count":1,"x":2}', headers=headers("application/json")
)
STATE = exchange("GET", "/state")
LISTED = exchange("GET", "/lines", b'{"total":1}\n{"total":2}\n', headers=headers(LINES))
EVENT = exchange("GET", "/events", b'id: 1\ndata: {"total":1}\n\n: x\n\n', headers=headers(EVENTS))
NO_METHOD = exchange("PUT", "/state", status=405, headers=headers("text/plain", allow="GET, HEAD"))


@pytest.mark.parametrize(
    "described",
    [
        SUM,
        STATE,
        replace(STATE, path="/state?a=b"),
        replace(STATE, method="HEAD", answer=b""),
        replace(STATE, path="/below/a/b"),
        replace(STATE, status=413),
        replace(STATE, status=503, headers=headers("text/plain", retry_after="1")),
        replace(STATE, headers=headers("text/plain", x_request_id="1")),
        LISTED,
        EVENT,
        NO_METHOD,
        replace(NO_METHOD, status=413),
        replace(STATE, path="/other", status=404),
        replace(STATE, path="/other", status=413),
        replace(SUM, status=400, answer=b"why\n", body=b"{", headers=headers("text/plain")),
    ],
)
def test_described_exchange_is_accepted(described: Exchange) -> None:
    ApiDescription(DOCUMENT).check(described)


@pytest.mark.parametrize(
    "undescribed",
    [
        replace(STATE, path="/other"),
        replace(STATE, status=404),
        replace(STATE, status=201),
        replace(STATE, status=401),
        replace(STATE, headers=headers("application/json")),
        replace(STATE, method="HEAD"),
        replace(STATE, headers=headers("text/plain", retry_after="1")),
        replace(STATE, headers=headers("text/plain", www_authenticate="Bearer")),
        replace(STATE, status=413, answer=b"one\ntwo\n"),
        replace(STATE, status=413, answer=b""),
        replace(SUM, answer=b'{"total":"1"}'),
        replace(SUM, answer=b"{}"),
        replace(SUM, answer=b'{"total":1,"more":1}'),
        replace(SUM, body=b'{"count":"1"}'),
        replace(SUM, body=b"{}"),
        replace(LISTED, answer=b'{"total":1}\n{"count":2}\n'),
        replace(EVENT, answer=b'data: {"total":1,"more":1}\n\n'),
        replace(NO_METHOD, headers=headers("text/plain", allow="GET")),
        replace(NO_METHOD, status=200),
    ],
)
def test_undescribed_exchange_is_found(undescribed: Exchange) -> None:
    with pytest.raises(AssertionError):
        ApiDescription(DOCUMENT).check(undescribed)
