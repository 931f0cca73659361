"""Check requests and their answers against the OpenAPI document of a port."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from authorizerd.protocol.http.messages import JSON, LINES, Request, Response
from authorizerd.protocol.http.streamed import StreamedResponse

METHOD_NOT_ALLOWED, NOT_FOUND = 405, 404
NAMED_HEADERS = ("X-Request-ID", "Retry-After", "WWW-Authenticate")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and its answer. ``path`` may have a query; ``headers`` are the answer's."""

    method: str
    path: str
    body: bytes
    status: int
    headers: Mapping[str, str]
    answer: bytes


class ApiDescription:
    """A port's OpenAPI document, and what was seen of it.

    ``seen`` has the path template, method and status of each checked exchange.
    """

    def __init__(self, document: bytes) -> None:
        self.document: dict[str, Any] = json.loads(document)
        self._components = self.document["components"]
        self._answer_components = {"schemas": _forbid_other_fields(self._components["schemas"])}
        self.seen: set[tuple[str, str, int]] = set()
        self._templates: dict[str, re.Pattern[str]] = {
            template: re.compile(re.sub(r"\\\{\w+\\\}", ".*", re.escape(template)))
            for template in self.document["paths"]
        }

    def check(self, exchange: Exchange) -> None:
        """Check one exchange; AssertionError: the document does not describe it."""
        template = self._find_template(exchange.path.partition("?")[0])
        if template is None:
            assert exchange.status == NOT_FOUND or self._is_shared(exchange.status), exchange
            return
        operations = self.document["paths"][template]
        operation = operations.get(exchange.method.lower())
        headers = {name.lower(): value for name, value in exchange.headers.items()}
        if operation is None:
            self._check_other_method(exchange, headers, operations)
            return
        self.seen.add((template, exchange.method, exchange.status))
        response = self._resolve(operation["responses"].get(str(exchange.status)))
        assert response is not None, f"{exchange.status} is not described: {exchange}"
        self._check_answer(exchange, headers, response)
        self._check_request(exchange, operation)

    def statuses(self) -> Iterator[tuple[str, str, int]]:
        """Yield each described path, method and status."""
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                for status in operation["responses"]:
                    yield path, method.upper(), int(status)

    def accepts(self, schema: Mapping[str, Any], value: object) -> bool:
        """Return True if a part of an answer is valid by a schema of the document."""
        return not _find_faults(schema, self._answer_components, value)

    def _find_template(self, path: str) -> str | None:
        """Return the described path; one without parameters comes first."""
        for template in sorted(self._templates, key=lambda template: "{" in template):
            if self._templates[template].fullmatch(path):
                return template
        return None

    def _is_shared(self, status: int) -> bool:
        """Return True if the server itself gives this answer, before a path is looked up."""
        return any(
            "$ref" in operation["responses"].get(str(status), ())
            for operations in self.document["paths"].values()
            for operation in operations.values()
        )

    def _check_other_method(
        self, exchange: Exchange, headers: Mapping[str, str], operations: Mapping[str, Any]
    ) -> None:
        if exchange.status == METHOD_NOT_ALLOWED:
            allowed = {method.strip().lower() for method in headers["allow"].split(",")}
            assert allowed == set(operations), exchange
        else:
            assert self._is_shared(exchange.status), exchange

    def _check_answer(
        self, exchange: Exchange, headers: Mapping[str, str], response: Mapping[str, Any]
    ) -> None:
        media_type = headers["content-type"].partition(";")[0]
        assert media_type in response["content"], f"{media_type} is not described: {exchange}"
        described = response.get("headers", ())
        for name in NAMED_HEADERS:
            assert name.lower() not in headers or name in described, f"{name}: {exchange}"
        schema = response["content"][media_type]["schema"]
        if exchange.method == "HEAD":
            assert exchange.answer == b""
        elif media_type == JSON or "x-itemSchema" in schema:
            for part in _split(media_type, exchange.answer):
                faults = _find_faults(
                    schema.get("x-itemSchema", schema), self._answer_components, json.loads(part)
                )
                assert not faults, f"{faults}: {exchange}"
        elif exchange.status >= 400:
            assert re.fullmatch(rb"[^\r\n]+\n", exchange.answer), exchange

    def _check_request(self, exchange: Exchange, operation: Mapping[str, Any]) -> None:
        """Check that an accepted request is described; so one that is not is never accepted."""
        if exchange.status != 200 or "requestBody" not in operation:
            return
        schema = operation["requestBody"]["content"][JSON]["schema"]
        faults = _find_faults(schema, self._components, json.loads(exchange.body))
        # A batch is accepted although single evaluations are invalid.
        evaluations = json.loads(exchange.answer).get("evaluations", ())
        for each in evaluations:
            if each["context"].get("error", {}).get("status") == 400:
                return
        assert not faults, f"{faults}: {exchange}"

    def _resolve(self, response: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if response is None or "$ref" not in response:
            return response
        name = response["$ref"].rpartition("/")[2]
        component: Mapping[str, Any] = self.document["components"]["responses"][name]
        return component


def _split(media_type: str, answer: bytes) -> Iterator[bytes]:
    """Yield each JSON document of an answer."""
    if media_type == JSON:
        yield answer
    elif media_type == LINES:
        yield from answer.splitlines()
    else:
        for line in answer.splitlines():
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ")


def _find_faults(
    schema: Mapping[str, Any], components: Mapping[str, Any], value: object
) -> list[str]:
    # References name components from the root of the document.
    validator = Draft202012Validator({**schema, "components": components})
    return [fault.message for fault in validator.iter_errors(value)]


def _forbid_other_fields(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return schemas that accept only described fields: answers have no others."""
    return {
        name: {**schema, "additionalProperties": False} if "properties" in schema else schema
        for name, schema in schemas.items()
    }


def exchange_of(request: Request, response: Response | StreamedResponse) -> Exchange:
    """Return the exchange of a handler's request and response, without a body that is streamed."""
    body = b""
    if isinstance(response, StreamedResponse):
        response.close()
    elif request.method != "HEAD":
        body = response.body
    headers = {name.decode(): value.decode("latin-1") for name, value in response.headers}
    return Exchange(
        method=request.method,
        path=request.path,
        body=request.body,
        status=response.status,
        headers=headers | {"Content-Type": response.content_type},
        answer=body,
    )
