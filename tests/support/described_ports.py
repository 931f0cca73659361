"""Check the traffic of real daemons against the OpenAPI documents of their ports."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from authorizerd.daemon.http.api_document import ADMIN_API, DECISION_API
from tests.support.api_description import ApiDescription, Exchange
from tests.support.api_documents import read_document

if TYPE_CHECKING:
    from tests.support.daemon_process import Answer

_DOCUMENTS: Final = {"decision": DECISION_API, "admin": ADMIN_API}


@cache
def _description_of(port: str) -> ApiDescription:
    return ApiDescription(read_document(_DOCUMENTS[port]))


def check_answer(port: str, method: str, path: str, body: bytes, answer: Answer) -> None:
    """Check one request to a port, and its answer, by the port's document."""
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
