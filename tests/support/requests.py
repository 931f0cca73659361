"""Requests that tests of several decision ports send."""

import json
from collections.abc import Mapping
from typing import Any

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.protocol.http.messages import Request


def http_request(
    path: str,
    body: object = b"",
    *,
    method: str = "POST",
    query: str = "",
    caller: str = "",
    headers: Mapping[bytes, bytes] | None = None,
) -> Request:
    """Return a request, by default one of JSON.

    Args:
        body: bytes, or the document.
        caller: the id of a token, whose secret is ``secret``.
        headers: in the place of the content type.
    """
    lines = {b"content-type": b"application/json"} if headers is None else dict(headers)
    if caller:
        lines[b"authorization"] = f"Bearer {caller}.secret".encode()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(method, path, query, lines, data)


def evaluation(
    user: str = "alice", action: str = "read", *, topic: str = "orders", host: str | None = None
) -> dict[str, Any]:
    """Return AuthZEN's document that asks whether ``user`` may do ``action`` to a topic."""
    document: dict[str, Any] = {
        "subject": {"type": "user", "id": user},
        "action": {"name": action},
        "resource": {"type": "topic", "id": topic},
    }
    return document if host is None else {**document, "context": {"host": host}}


def stream_question(asked: Question) -> tuple[str, str | None, int, int, str]:
    """Return a question as the decision stream takes it."""
    return (
        asked.principal, asked.host, asked.operation, asked.resource_type, asked.resource_name,
    )  # fmt: skip


def evaluation_of(asked: Question, **context: object) -> dict[str, Any]:
    """Return AuthZEN's document of a question."""
    if asked.host is not None:
        context["host"] = asked.host
    document: dict[str, Any] = {
        "subject": {"type": "user", "id": asked.principal.removeprefix("User:")},
        "action": {"name": Operation(asked.operation).name.lower()},
        "resource": {
            "type": ResourceType(asked.resource_type).name.lower(),
            "id": asked.resource_name,
        },
    }
    return {**document, "context": context} if context else document
