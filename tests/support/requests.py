"""Requests that tests of several decision ports send."""

from __future__ import annotations

from typing import Any

from authorizerd.acl.model import Operation, Question, ResourceType


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
