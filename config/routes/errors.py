"""The errors of a gateway's request."""

from __future__ import annotations

UNKNOWN_USER = 401
REFUSED = 403


class RefusedRequestError(Exception):
    """A request for which no question is asked. ``status`` is the answer's: 401 or 403.

    The text names what is wrong, for the person who sent the request.
    """

    def __init__(self, reason: str, status: int = REFUSED) -> None:
        super().__init__(reason)
        self.status = status
