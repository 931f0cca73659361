"""``GET /v1/watch``: every change of ACLs after an offset, as server-sent events.

**Invariant:** a watcher gets every change after its offset, once and in order, but only after
decisions use it; otherwise it is told to list the ACLs again. It keeps only a position in the
journal and the event that is being sent, so a slow watcher takes no more memory than a fast one. No
change is sent unless the caller may still see ACLs.
"""

from __future__ import annotations

import re
from typing import Final

import trio

from authorizerd.acl.errors import NotReadyError
from authorizerd.actors.acl_journal import AclJournal, ExpiredError, JournalPart
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.errors import ClosingError, ForbiddenError
from authorizerd.daemon.queries.acl_surface import (
    NO_STORE,
    AclSurface,
    check_may_list,
    refuse_for_now,
)
from authorizerd.daemon.queries.watchers import Ending, Watchers
from authorizerd.protocol.decisions.acl_feed import (
    CLOSED,
    EXPIRED,
    RESUMED,
    SUSPENDED,
    encode_begin,
    encode_changes,
    encode_heartbeat,
    encode_state,
)
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names, parse_query
from authorizerd.protocol.http.messages import EVENTS, Request, Response
from authorizerd.protocol.http.streamed import Send, StreamedResponse
from authorizerd.protocol.json_faults import quote

WATCH_PATH: Final = "/v1/watch"
SURFACE: Final = "WatchAcls"
HEARTBEAT_SECONDS: Final = 10.0
"""After this time without an event, a comment is sent, and the caller's right is checked again."""
STALL_SECONDS: Final = 30.0
AHEAD_SECONDS: Final = 5.0
"""How long a watch waits for an offset that only another daemon or worker has applied so far."""

_OFFSET: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_LAST_EVENT_ID: Final = b"last-event-id"
_HEADERS: Final = (
    NO_STORE,
    (b"X-Accel-Buffering", b"no"),  # nginx would hold events back until its buffer is full
)


class AclWatchHandler(AclSurface):
    """Answer watches."""

    def __init__(
        self, authorizer: StandardAuthorizer, callers: Callers, watchers: Watchers
    ) -> None:
        super().__init__(SURFACE, authorizer, callers)
        self._watchers: Final = watchers

    async def _answer(self, request: Request, caller: Caller) -> Response | StreamedResponse:
        after = _read_offset(request)
        if after is not None:
            with trio.move_on_after(AHEAD_SECONDS):
                await self._authorizer.wait_until_applied(after)
        # Do both in one step: a batch applied in between would be lost, or sent twice.
        check_may_list(self._authorizer, caller)
        journal = self._watchers.journal
        after = journal.offset if after is None else after
        position = journal.find(after)
        principal = caller.principal
        assert principal is not None, "only callers with credentials may list ACLs"
        if not self._watchers.enter(principal):
            return refuse_for_now(
                "too many watchers: all callers together have reached "
                "authorizerd.watch.max.connections, or this caller has reached half of it"
            )
        watch = _Watch(self._authorizer, caller, self._watchers, after, position)
        return StreamedResponse(
            write=watch.write,
            close=watch.close,
            content_type=EVENTS,
            headers=_HEADERS,
            is_live=True,
            stall_seconds=STALL_SECONDS,
        )


class _Watch:
    """One watcher.

    Args:
        after: the offset after which its changes begin.
        position: the first change's position in the journal.
    """

    def __init__(
        self,
        authorizer: StandardAuthorizer,
        caller: Caller,
        watchers: Watchers,
        after: int,
        position: int,
    ) -> None:
        self._authorizer: Final = authorizer
        self._caller: Final = caller
        self._watchers: Final = watchers
        self._journal: Final[AclJournal] = watchers.journal
        self._after: Final = after
        self._position = position
        self._is_suspended = False
        self._ending: Ending = "closed"

    def close(self) -> None:
        """Release the slot, and count why the watch ended."""
        principal = self._caller.principal
        assert principal is not None, "checked"
        self._watchers.leave(principal, self._ending)

    async def write(self, send: Send) -> None:
        """Send events until the caller may no longer see ACLs, or changes have left the journal."""
        journal = self._journal
        try:
            await send(encode_begin(self._after, journal.offset))
            await self._follow(send)
        except ForbiddenError as error:
            self._ending = "forbidden"
            await send(encode_state(CLOSED, journal.offset, str(error)))
        except NotReadyError as error:
            self._ending = "not_ready"
            await send(encode_state(CLOSED, journal.offset, str(error)))
        except ExpiredError as error:
            self._ending = "expired"
            await send(encode_state(EXPIRED, journal.offset, str(error)))
        except ClosingError:
            self._ending = "slow"
            raise

    async def _follow(self, send: Send) -> None:
        while True:
            seen = self._journal.news.newest
            await self._send_news(send)
            with trio.move_on_after(HEARTBEAT_SECONDS) as quiet:
                await self._wait_for_news(seen)
            if quiet.cancelled_caught:
                await self._send_heartbeat(send)

    async def _send_heartbeat(self, send: Send) -> None:
        """Show that the watch is alive, and move the client's position to the newest offset."""
        journal = self._journal
        if bool(journal.stop_reason) != self._is_suspended:
            return  # there is an event to send
        if self._is_suspended:
            await send(encode_heartbeat(None))
            return
        check_may_list(self._authorizer, self._caller)
        # If the client resumed after changes that were not sent yet, they would be lost.
        if journal.look_up(self._position) is None:
            await send(encode_heartbeat(journal.offset))

    async def _wait_for_news(self, seen: int) -> None:
        await self._journal.news.wait_until(lambda newest: newest != seen)

    async def _send_news(self, send: Send) -> None:
        """Send all available events. While decisions are suspended, send no changes."""
        journal = self._journal
        while self._has_news():
            # A change wakes all watchers, so each waits for its turn first.
            await send(b"")
            if bool(journal.stop_reason) != self._is_suspended:
                self._is_suspended = not self._is_suspended
                name = SUSPENDED if self._is_suspended else RESUMED
                await send(encode_state(name, journal.offset, journal.stop_reason))
                continue
            part = None if self._is_suspended else journal.look_up(self._position)
            if part is None:
                continue
            # Check before each part: a slow reader may take minutes to read a batch.
            check_may_list(self._authorizer, self._caller)
            await send(_encode(part))
            self._position += 1
            self._watchers.statistics.events_sent += part.is_last

    def _has_news(self) -> bool:
        """Return True if there is an event to send.

        Raises:
            ExpiredError: changes have left the journal.
        """
        journal = self._journal
        if bool(journal.stop_reason) != self._is_suspended:
            return True
        return not self._is_suspended and journal.look_up(self._position) is not None


def _encode(part: JournalPart) -> bytes:
    """Return the event for a part. All watchers share its text."""
    if not part.text:
        changes = ((change.is_added, change.id, change.acl) for change in part.changes)
        part.text = encode_changes(part.offset, changes, is_last=part.is_last)
    return part.text


def _read_offset(request: Request) -> int | None:
    """Return the offset to resume from, or None to begin with the newest one.

    When a browser resumes, it sends the same URL again, so the header is newer.

    Raises:
        QueryError: it is not a number, or the query has other parameters.
    """
    parameters = parse_query(request.query)
    check_names(parameters, ("after",))
    header = request.headers.get(_LAST_EVENT_ID)
    name, text = "after", parameters.get("after")
    if header:
        name, text = "Last-Event-ID", header.decode("latin-1")
    if text is None:
        return None
    if not _OFFSET.fullmatch(text):
        raise QueryError(f"{name}: expected a log offset, found {quote(text)}")
    return int(text)
