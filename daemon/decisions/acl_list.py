"""``GET /v1/acls``: the ACLs at one offset, from which a watch can begin.

**Invariant:** a listing shows exactly the ACLs of one snapshot that its filter matches, each once,
or the client sees that it is incomplete. Its memory does not grow with the number of ACLs. One
caller cannot keep all others out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec
import trio

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import AclFilter
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.actors.decider import Decider, DecisionState
from authorizerd.actors.record_applier import STALE
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.actors.steps import pause_if_due
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.decisions.acl_surface import (
    NO_STORE,
    AclSurface,
    check_may_list,
    refuse_for_now,
)
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.past import Past
from authorizerd.daemon.decisions.slots import Slots
from authorizerd.daemon.errors import (
    ClosingError,
    ForbiddenError,
    PastRefusedError,
    PastUnavailableError,
)
from authorizerd.protocol.decisions.acl_feed import (
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
)
from authorizerd.protocol.decisions.acl_filters import parse_query, read_as_of, read_filter
from authorizerd.protocol.decisions.past_answers import AsOfAnswer, make_as_of
from authorizerd.protocol.http.messages import LINES, Request, Response
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.http.streamed import Send, StreamedResponse

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
        past: None if the ACLs of earlier moments cannot be listed.
    """

    def __init__(
        self, decider: StandardDecider, callers: Callers, past: Past | None = None
    ) -> None:
        super().__init__(SURFACE, decider, callers)
        self._past: Final = past
        self._places: Final = Slots(LISTINGS_AT_ONCE_MAX, LISTINGS_OF_A_CALLER_MAX)

    async def _answer(self, request: Request, caller: Caller) -> Response | StreamedResponse:
        parameters = parse_query(request.query)
        wanted, as_of = read_filter(parameters), read_as_of(parameters)
        state = check_may_list(self._decider, caller)
        listing = _Listing(self._decider, caller, state, wanted)
        write: Callable[[Send], Awaitable[None]] = listing.write
        if as_of is not None:
            write = await self._list_past(as_of, wanted, caller)
        give_back = self._places.take(caller.principal)
        if give_back is None:
            return refuse_for_now(
                f"{LISTINGS_AT_ONCE_MAX} listings are under way, or"
                f" {LISTINGS_OF_A_CALLER_MAX} of this caller, which is the limit: retry later"
            )
        return StreamedResponse(
            write=write,
            close=give_back,
            content_type=LINES,
            headers=(NO_STORE,),
            stall_seconds=STALL_SECONDS,
        )

    async def _list_past(
        self, as_of: AsOf, wanted: AclFilter, caller: Caller
    ) -> Callable[[Send], Awaitable[None]]:
        """Return what lists the ACLs of an earlier moment, once it is known that it can be read.

        Raises:
            PastRefusedError, PastUnavailableError: see ``Past.state_at``.
        """
        past, principal = self._past, caller.principal
        if past is None:
            raise PastRefusedError("as_of: this daemon answers no questions about the past")
        async with past.state_at(as_of, principal) as then:
            if as_of.offset is None:
                as_of = AsOf(offset=then.moment.offset)

        async def write(send: Send) -> None:
            # Again, because only within this context the state is freed in steps after its use.
            try:
                async with past.state_at(as_of, principal) as then:
                    moment = make_as_of(then.moment)
                    listing = _Listing(self._decider, caller, then.state, wanted, moment)
                    await listing.write(send)
            except (PastRefusedError, PastUnavailableError, NotReadyError) as error:
                raise ClosingError(f"a listing of the past ended early: {error}") from error

        return write


class _Listing:
    """One listing. Its first line has the offset, and its last line the number of ACLs."""

    def __init__(
        self,
        decider: Decider,
        caller: Caller,
        state: DecisionState,
        wanted: AclFilter,
        as_of: AsOfAnswer | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        self._as_of: Final = as_of
        self._caller: Final = caller
        snapshot = state.snapshot
        assert snapshot is not None, "checked"
        self._has_expired: Final = partial(
            decider.has_expired, msgspec.structs.replace(state, snapshot=None)
        )
        # Without the index, which takes long to free if many ACLs have changed meanwhile.
        self._snapshot: Final = AclSnapshot(
            snapshot.offset, snapshot.acls, EMPTY_SNAPSHOT.types, EMPTY_SNAPSHOT.unindexed
        )
        self._wanted: Final = wanted

    async def write(self, send: Send) -> None:
        with trio.move_on_after(LISTING_SECONDS_MAX) as limit:
            await self._write(send)
        if limit.cancelled_caught:
            raise ClosingError(f"a listing of ACLs took longer than {LISTING_SECONDS_MAX:g} s")

    async def _write(self, send: Send) -> None:
        lines = [encode_listing_begin(self._snapshot.offset, self._as_of)]
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
        # The listing ends without its last line, so it is incomplete.
        if self._has_expired():
            raise ClosingError(f"a listing of ACLs ended early: {STALE}")
        try:
            self._caller.check(ACLS)  # for each part, since a slow reader may take minutes
        except ForbiddenError as error:
            raise ClosingError(f"a listing of ACLs ended early: {error}") from error
        await send(_join(lines))


def _join(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
