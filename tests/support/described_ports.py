"""Check the traffic of real daemons against the OpenAPI documents of their ports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from authorizerd.daemon.decisions.endpoints import DECISION_ENDPOINTS
from authorizerd.daemon.telemetry.endpoints import ADMIN_ENDPOINTS
from authorizerd.protocol.http.endpoints import Endpoint
from authorizerd.protocol.http.openapi import describe_port
from tests.support.api_description import ApiDescription, Exchange

if TYPE_CHECKING:
    from tests.support.daemon_process import Answer

_ENDPOINTS: Final[dict[str, Sequence[Endpoint]]] = {
    "decision": DECISION_ENDPOINTS,
    "admin": ADMIN_ENDPOINTS,
}


@cache
def _description_of(port: str) -> ApiDescription:
    return ApiDescription(describe_port("", "", _ENDPOINTS[port]))


def check_answer(port: str, method: str, path: str, body: bytes, answer: Answer) -> None:
    """Check one request to a port, and its answer.

    Raises:
        AssertionError: the port's document does not describe it.
    """
    _description_of(port).check(
        Exchange(
            method=method,
            path=path,
            body=body,
            status=answer.status,
            headers=answer.headers,
            answer=answer.body,
        )
    )
