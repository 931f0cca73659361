"""The parts behind the port's paths about ACLs, with an applier that tests feed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import trio
import trio.testing

from authorizerd.acl.model import Acl, AclAdded, Change, ChangeBatch
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.queries.acl_list import ACLS_PATH, AclListHandler
from authorizerd.daemon.queries.acl_state import STATE_PATH, AclStateHandler
from authorizerd.daemon.queries.acl_watch import WATCH_PATH, AclWatchHandler
from authorizerd.daemon.queries.watchers import Watchers
from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.http.streamed import StreamedResponse
from tests.daemon.decision_place import PROXY, ROOT, TOKENS, settings_of
from tests.daemon.local_queries import LocalQueries
from tests.support.acl_events import AclCopy, Event, EventReader
from tests.support.acls import acl
from tests.support.requests import http_request

DESCRIBE = acl(PROXY, "DESCRIBE", cluster=True)
DESCRIBE_ID = b"describe cluster"


async def read_streamed(response: Response | StreamedResponse) -> bytes:
    """Return the whole body of a streamed answer."""
    assert isinstance(response, StreamedResponse), response
    parts: list[bytes] = []

    async def send(data: bytes) -> None:
        parts.append(data)

    try:
        await response.write(send)
    finally:
        response.close()
    return b"".join(parts)


class AclPlace:
    """A decision port without sockets.

    Args:
        folder: a folder for the tokens file; without it every caller is trusted.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        journal_bytes: int = 1 << 20,
        connections_max: int = 8,
        text: str = TOKENS,
    ) -> None:
        self.feed, inbox = trio.open_memory_channel[Message](0)
        self.journal = AclJournal(journal_bytes)
        self.applier = RecordApplier(inbox, journal=self.journal, clock=trio.current_time)
        self.authorizer = StandardAuthorizer(
            self.applier.snapshot, why_no_snapshot=lambda: self.applier.not_ready_reason
        )
        self.authorizer.reconfigure({"super.users": ROOT})
        self.file = None if folder is None else folder / "tokens"
        if self.file is not None:
            self.file.write_text(text)
        self.callers = Callers(None if self.file is None else str(self.file))
        self.callers.prepare_reload()()
        self.callers.reconfigure(settings_of(read=PROXY))
        self.watchers = Watchers(self.journal, connections_max)
        self.handlers = {
            ACLS_PATH: AclListHandler(
                self.authorizer,
                self.callers,
                LocalQueries(self.applier.applied, self.applier.cluster),
            ),
            STATE_PATH: AclStateHandler(self.authorizer, self.callers),
            WATCH_PATH: AclWatchHandler(self.authorizer, self.callers, self.watchers),
        }
        self.offset = 0

    async def load(self, nursery: trio.Nursery, *acls: tuple[bytes, Acl]) -> Self:
        """Load these ACLs, up to offset 0; return this place."""
        self._nursery = nursery
        await nursery.start(self.applier.run)
        await self.feed.send(ChangeBatch(0, tuple(AclAdded(*each) for each in acls)))
        await self.feed.send(CaughtUp(0))
        await trio.testing.wait_all_tasks_blocked()
        return self

    async def change(self, *changes: Change) -> int:
        """Apply a batch of changes; return its offset."""
        self.offset += 1
        await self.feed.send(ChangeBatch(self.offset, changes))
        await trio.testing.wait_all_tasks_blocked()
        return self.offset

    async def ask(
        self,
        path: str,
        query: str = "",
        *,
        token: str | None = "root.secret",
        method: str = "GET",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Response | StreamedResponse:
        lines = dict(headers)
        if token is not None:
            lines[b"authorization"] = b"Bearer " + token.encode()
        return await self.handlers[path](
            http_request(path, method=method, query=query, headers=lines)
        )

    async def watch(
        self,
        query: str = "",
        *,
        token: str = "root.secret",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Session:
        """Start a watch that is not refused."""
        response = await self.ask(WATCH_PATH, query, token=token, headers=headers)
        assert isinstance(response, StreamedResponse), response
        session = Session(response)
        self._nursery.start_soon(session.run)
        await trio.testing.wait_all_tasks_blocked()
        return session

    def rewrite_tokens(self, text: str) -> None:
        """Replace the tokens file, and reload it."""
        assert self.file is not None
        self.file.write_text(text)
        self.callers.prepare_reload()()

    async def refusal(self, path: str, query: str = "", **options: str | None) -> tuple[int, str]:
        """Return status and text of a request that is refused."""
        response = await self.ask(path, query, token=options.get("token", "root.secret"))
        assert isinstance(response, Response), response
        assert response.content_type == "text/plain; charset=utf-8"
        return response.status, response.body.decode()

    async def list(self, query: str = "", token: str = "root.secret") -> bytes:
        """Return a whole listing."""
        return await read_streamed(await self.ask(ACLS_PATH, query, token=token))


class Session:
    """One watch in a task of its own, over a connection that breaks after ``bytes_max`` bytes."""

    def __init__(self, response: StreamedResponse, bytes_max: int = 1 << 30) -> None:
        self._response = response
        self._left = bytes_max
        self.reader = EventReader()
        self.events: list[Event] = []
        self.places: list[tuple[str, int]] = []
        """After each part: the place to resume from, and the number of events so far."""
        self.has_ended = False
        self.scope = trio.CancelScope()
        self.may_read = trio.Event()
        self.may_read.set()

    async def run(self) -> None:
        try:
            with self.scope:
                await self._response.write(self._send)
        except trio.BrokenResourceError:
            pass
        finally:
            self._response.close()
            self.has_ended = True

    async def _send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if not data:
            return
        await self.may_read.wait()
        received = data[: self._left]
        self._left -= len(received)
        self.events += self.reader.receive(received)
        self.places.append((self.reader.last_id, len(self.events)))
        if not self._left:
            raise trio.BrokenResourceError

    def names(self) -> list[str]:
        return [event.name for event in self.events]


class Client:
    """Lists the ACLs, then follows them; lists them again if it must."""

    def __init__(self, place: AclPlace, nursery: trio.Nursery) -> None:
        self._place = place
        self._nursery = nursery
        self._session: Session | None = None
        self._place_in_log = ""
        self.copy = AclCopy()
        self.listings = 0

    async def connect(self, bytes_max: int = 1 << 30) -> None:
        """Resume on a new connection, as a browser does."""
        await self.disconnect()
        if not self._place_in_log:
            await self._list()
        response = await self._ask()
        if isinstance(response, Response):
            assert response.status == 410, response
            await self._list()
            response = await self._ask()
        assert isinstance(response, StreamedResponse), response
        self._session = Session(response, bytes_max)
        self._session.reader.last_id = self._place_in_log
        self._nursery.start_soon(self._session.run)
        await trio.testing.wait_all_tasks_blocked()

    async def disconnect(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        session.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        names = session.names()
        for event in session.events:
            if event.name == "acls":
                self.copy.apply(event)
        assert set(names) <= {"begin", "acls", "expired"}
        assert names[:1] in ([], ["begin"])
        self.copy.lose_connection()
        self._place_in_log = session.reader.last_id
        if "expired" in names:
            await self._list()

    async def _ask(self) -> Response | StreamedResponse:
        header = (b"last-event-id", self._place_in_log.encode())
        return await self._place.ask(WATCH_PATH, headers=[header])

    async def _list(self) -> None:
        self.listings += 1
        self.copy.begin_with(await self._place.list())
        self._place_in_log = str(self.copy.offset)
