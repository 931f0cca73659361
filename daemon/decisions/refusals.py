"""The refusals that the endpoints of the decision port share, for its OpenAPI document."""

from __future__ import annotations

from typing import Final

from authorizerd.protocol.http.endpoints import Answer

INVALID: Final = Answer(400, "The request is invalid: the text names the field to fix.")
FORBIDDEN: Final = Answer(
    403,
    "The caller lacks a right. The text names its principal, and the key that must list it, such as"
    " `authorizerd.callers.ask`.",
)
NOT_READY: Final = Answer(
    503,
    "`AUTHORIZER_NOT_READY`: the ACLs are not loaded yet, or stale; the text says which. With"
    " `as_of`: the past cannot be read now (with `Retry-After`).",
)
REFUSALS: Final = (INVALID, FORBIDDEN, NOT_READY)
"""The errors of every endpoint that answers questions (``HttpSurface``)."""
