"""The answers of the admin port, for its OpenAPI document. The metrics port has the first three."""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.protocol.http.endpoints import ANY_CREDENTIALS, GET, Answer, Endpoint
from authorizerd.protocol.http.openapi import DOCUMENT_ENDPOINT

ADMIN_TITLE: Final = "authorizerd: admin port"
ADMIN_DESCRIPTION: Final = (
    "Read the daemon's metrics, and whether it is alive and ready. A port on a loopback address"
    " needs no credentials."
)

_TAG: Final = "health"

ADMIN_ENDPOINTS: Final = (
    Endpoint(
        path="/metrics",
        methods=GET,
        name="readMetrics",
        tag=_TAG,
        summary="Read the metrics in Prometheus' text format",
        answers=(Answer(200, "All metrics; docs/metrics.md explains each."),),
    ),
    Endpoint(
        path="/healthz",
        methods=GET,
        name="checkAlive",
        tag=_TAG,
        summary="Check whether the process answers",
        answers=(Answer(200, "`alive`."),),
    ),
    Endpoint(
        path="/readyz",
        methods=GET,
        name="checkReady",
        tag=_TAG,
        summary="Check whether the daemon is ready for requests",
        answers=(
            Answer(
                200,
                "The ACLs are loaded, every endpoint is open, and decisions are made; the text"
                " counts the ACLs.",
            ),
            Answer(
                503, "The text says what the daemon waits for, or why it refuses every decision."
            ),
        ),
    ),
    msgspec.structs.replace(DOCUMENT_ENDPOINT, credentials=ANY_CREDENTIALS),
)
"""All endpoints of the admin port."""
