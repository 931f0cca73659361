"""Answers that a client reads line by line, from the query process.

**Invariant:** the client can distinguish a complete answer from one that ended early. Nothing is
sent once the caller has lost the right, or the ACLs have become stale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import trio

from authorizerd.acl.errors import NotReadyError
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionState
from authorizerd.daemon.errors import ClosingError, ForbiddenError
from authorizerd.daemon.queries.acl_surface import NO_STORE
from authorizerd.daemon.queries.client import LISTING_SECONDS_MAX, OpenAnswer
from authorizerd.protocol.http.streamed import Send, StreamedResponse

STALL_SECONDS: Final = 30.0


def new_check(
    authorizer: DaemonAuthorizer, state: DecisionState, check_right: Callable[[], None]
) -> Callable[[], None]:
    """Return a function that checks that the caller may still see ``state``.

    Raises (when it is called):
        ForbiddenError, NotReadyError: it may not.
    """
    state = msgspec.structs.replace(state, snapshot=None)

    def check() -> None:
        check_right()
        authorizer.check_current(state)

    return check


def stream(
    found: OpenAnswer,
    check: Callable[[], None],
    content_type: str,
    headers: tuple[tuple[bytes, bytes], ...] = (NO_STORE,),
) -> StreamedResponse:
    """Return a streamed response of an answer's lines; the answer is closed at the end."""

    async def write(send: Send) -> None:
        with trio.move_on_after(LISTING_SECONDS_MAX) as limit:
            while lines := await found.next_lines():
                try:
                    check()  # check before each part: a slow reader may take minutes
                except (ForbiddenError, NotReadyError) as error:
                    raise ClosingError(f"a listing ended early: {error}") from error
                await send(lines)
        if limit.cancelled_caught:
            raise ClosingError(f"a listing took longer than {LISTING_SECONDS_MAX:g} s")

    return StreamedResponse(
        write=write,
        close=found.close,
        content_type=content_type,
        headers=headers,
        stall_seconds=STALL_SECONDS,
    )
