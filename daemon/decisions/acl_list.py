"""``GET /v1/acls``: the ACLs at one offset, from which a watch can begin.

**Invariant:** a listing shows exactly the ACLs of one snapshot that its filter matches, each once,
or the client sees that it is incomplete. Its memory does not grow with the number of ACLs. One
caller cannot keep all others out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec
import trio

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import AclFilter
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionState
from authorizerd.actors.published_state import STALE
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.steps import pause_if_due
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.decisions.acl_surface import (
    NO_STORE,
    AclSurface,
    check_may_list,
    refuse_for_now,
)
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.slots import Slots
from authorizerd.daemon.errors import ClosingError, ForbiddenError
from authorizerd.daemon.queries.client import NO_QUERIES, Queries
from authorizerd.protocol.decisions.acl_feed import (
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
)
from authorizerd.protocol.decisions.acl_filters import parse_query, read_as_of, read_filter
from authorizerd.protocol.http.messages import LINES, Request, Response
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.http.streamed import Send, StreamedResponse
from authorizerd.protocol.queries import ListingQuestion

ACLS_PATH: Final = "/v1/acls"
SURFACE: Final = "ListAcls"
LISTINGS_AT_ONCE_MAX: Final = 8
"""A listing keeps its ACLs in memory, although they may be removed meanwhile."""
LISTINGS_OF_A_CALLER_MAX: Final = LISTINGS_AT_ONCE_MAX // 2
LISTING_SECONDS_MAX: Final = 120.0
STALL_SECONDS: Final = 30.0
_ACLS_PER_STEP: Final = 32


class AclListHandler(AclSurface):
    """Answer listings, as lines of JSON.

    Args:
        queries: answers what is about earlier moments.
    """

    def __init__(
        self, decider: StandardAuthorizer, callers: Callers, queries: Queries = NO_QUERIES
    ) -> None:
        super().__init__(SURFACE, decider, callers)
        self._queries: Final = queries
        self._places: Final = Slots(LISTINGS_AT_ONCE_MAX, LISTINGS_OF_A_CALLER_MAX)

    async def _answer(self, request: Request, caller: Caller) -> Response | StreamedResponse:
        parameters = parse_query(request.query)
        wanted, as_of = read_filter(parameters), read_as_of(parameters)
        state = check_may_list(self._decider, caller)
        if as_of is not None:
            return await self._list_past(as_of, wanted, caller, state)
        give_back = self._places.take(caller.principal)
        if give_back is None:
            return refuse_for_now(
                f"{LISTINGS_AT_ONCE_MAX} listings are under way, or"
                f" {LISTINGS_OF_A_CALLER_MAX} of this caller, which is the limit: retry later"
            )
        return _stream(_Listing(self._decider, caller, state, wanted).write, give_back)

    async def _list_past(
        self, as_of: AsOf, wanted: AclFilter, caller: Caller, state: DecisionState
    ) -> StreamedResponse:
        """Return what lists the ACLs of an earlier moment.

        Raises:
            PastRefusedError, PastUnavailableError, BusyError: see ``Queries.open``.
        """
        check = _new_check(self._decider, caller, state)
        asked = ListingQuestion(wanted, state.settings, as_of)
        offset = state.offset
        del state  # else it would be freed late
        found = await self._queries.open(asked, caller=caller.principal, offset=offset)

        async def write(send: Send) -> None:
            with _limited():
                async for lines in found.lines():
                    check()
                    await send(lines)

        return _stream(write, found.close)


def _stream(
    write: Callable[[Send], Awaitable[None]], close: Callable[[], None]
) -> StreamedResponse:
    return StreamedResponse(
        write=write,
        close=close,
        content_type=LINES,
        headers=(NO_STORE,),
        stall_seconds=STALL_SECONDS,
    )


def _new_check(
    decider: DaemonAuthorizer, caller: Caller, state: DecisionState
) -> Callable[[], None]:
    """Return what checks, for each part, that the caller may still see the ACLs.

    Raises (when it is called):
        ClosingError: it may not. The listing ends without its last line, so it is incomplete.
    """
    has_expired = partial(decider.has_expired, msgspec.structs.replace(state, snapshot=None))

    def check() -> None:
        if has_expired():
            raise ClosingError(f"a listing of ACLs ended early: {STALE}")
        try:
            caller.check(ACLS)  # for each part, since a slow reader may take minutes
        except ForbiddenError as error:
            raise ClosingError(f"a listing of ACLs ended early: {error}") from error

    return check


@contextmanager
def _limited() -> Iterator[None]:
    with trio.move_on_after(LISTING_SECONDS_MAX) as limit:
        yield
    if limit.cancelled_caught:
        raise ClosingError(f"a listing of ACLs took longer than {LISTING_SECONDS_MAX:g} s")


class _Listing:
    """One listing. Its first line has the offset, and its last line the number of ACLs."""

    def __init__(
        self, decider: DaemonAuthorizer, caller: Caller, state: DecisionState, wanted: AclFilter
    ) -> None:
        snapshot = state.snapshot
        assert snapshot is not None, "checked"
        self._check: Final = _new_check(decider, caller, state)
        # Without the index, which takes long to free if many ACLs have changed meanwhile.
        self._snapshot: Final = AclSnapshot(
            snapshot.offset, snapshot.acls, EMPTY_SNAPSHOT.types, EMPTY_SNAPSHOT.unindexed
        )
        self._wanted: Final = wanted

    async def write(self, send: Send) -> None:
        with _limited():
            await self._write(send)

    async def _write(self, send: Send) -> None:
        lines = [encode_listing_begin(self._snapshot.offset)]
        size = count = 0
        for some in scan_acls(self._snapshot, self._wanted):
            for number, (acl_id, acl) in enumerate(some, 1):
                line = encode_listed(acl_id, acl)
                lines.append(line)
                size += len(line)
                if size >= SEND_BYTES:
                    await self._send(send, lines)
                    lines, size = [], 0
                elif number % _ACLS_PER_STEP == 0:
                    await pause_if_due()
            count += len(some)
            await pause_if_due()
        lines.append(encode_listing_end(count))
        await self._send(send, lines)

    async def _send(self, send: Send, lines: list[bytes]) -> None:
        self._check()
        await send(_join(lines))


def _join(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
