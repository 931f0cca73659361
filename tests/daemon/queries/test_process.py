"""The query process and its children, with real processes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import AclFilter, ChangeBatch, Question
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier
from authorizerd.daemon.errors import BusyError, ClosingError
from authorizerd.daemon.queries.admission import LISTINGS_MAX, RUNNING_MAX, WAITING_MAX
from authorizerd.daemon.queries.answers import NO_MEMORY
from authorizerd.daemon.queries.client import LOST, OpenAnswer, QueryClient
from authorizerd.daemon.queries.process import QueryProcess, new_work
from authorizerd.daemon.workers.query_pool import QueryPool
from authorizerd.protocol.queries import Answer, ExplainQuestion, ListingQuestion
from authorizerd.protocol.worker_feed import Files
from tests.support.log_files import added

SECONDS_MAX = 600
TIMEOUT_MS = 300_000
STOPPED_MS = 3_000


class Running:
    """A daemon's query process, and the ports that ask it."""

    def __init__(self, log_dir: Path, *flags: str) -> None:
        feed, inbox = trio.open_memory_channel[Message](4)
        self.applier = RecordApplier(inbox)
        self.pool = QueryPool(
            feed,
            self.applier.applied,
            self.applier.cluster,
            configuration={"node.id": "1", "log.dirs": str(log_dir)},
            files=Files,
            timeout_ms=STOPPED_MS,
        )
        self.processes: list[trio.Process] = []
        self.pid_file = log_dir / "pid"
        self._flags = flags

    async def spawn(self) -> tuple[trio.abc.Stream, trio.Process]:
        ours, theirs = trio.socket.socketpair()
        descriptors = (theirs.fileno(), self.pool.descriptor)
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", "tests.daemon.queries.odd_process"),
                *("--feed-fd", str(descriptors[0]), "--questions-fd", str(descriptors[1])),
                *self._flags,
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
        )
        theirs.close()
        self.processes.append(process)
        return trio.SocketStream(ours), process

    async def ask(
        self, principal: str = "a", offset: int = 1, timeout_ms: int = TIMEOUT_MS
    ) -> Answer:
        client = QueryClient(self.pool.questions, timeout_ms)
        name = str(self.pid_file) if principal == "sleep" else "topic-1"
        question = Question(f"User:{principal}", None, 3, 2, name)
        asked = ExplainQuestion(question, AuthorizerSettings())
        return await client.ask(asked, caller=None, offset=offset)

    async def list(self, offset: int = 1) -> OpenAnswer:
        client = QueryClient(self.pool.questions, TIMEOUT_MS)
        asked = ListingQuestion(AclFilter(), AuthorizerSettings())
        return await client.open(asked, caller=None, offset=offset)

    async def refusal(self, principal: str, timeout_ms: int = TIMEOUT_MS) -> str:
        with pytest.raises(BusyError) as error:
            await self.ask(principal, timeout_ms=timeout_ms)
        return str(error.value)

    async def ended(self, expected: dict[str, int]) -> None:
        """Wait until these questions are counted."""
        while self.pool.ended() != expected:  # noqa: ASYNC110
            await trio.sleep(0.02)

    async def sleeping(self) -> int:
        """Return the process id of a child that sleeps."""
        while not (self.pid_file.exists() and self.pid_file.read_text()):  # noqa: ASYNC110
            await trio.sleep(0.02)
        return int(self.pid_file.read_text())


def is_alive(process: int) -> bool:
    """Return True unless a process has ended. Nobody may have waited for it."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def list_descriptors(process: int) -> list[str]:
    """Return the kinds of a process's descriptors beyond the standard streams."""
    found = Path(f"/proc/{process}/fd").iterdir()
    return sorted(os.readlink(each).partition(":")[0] for each in found if int(each.name) > 2)


async def ends(process: int) -> None:
    while is_alive(process):  # noqa: ASYNC110 - not a child of this process
        await trio.sleep(0.02)


@asynccontextmanager
async def running(log_dir: Path, *flags: str) -> AsyncIterator[Running]:
    made = Running(log_dir, *flags)
    with made.pool, trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            await nursery.start(made.applier.run)
            nursery.start_soon(made.pool.relay)
            nursery.start_soon(made.pool.run, [], lambda: made.spawn())
            await made.pool.feed.send(ChangeBatch(1, (added(1),)))
            await made.pool.feed.send(CaughtUp(1))
            await made.applier.snapshot.wait_until(lambda newest: newest is not None)
            made.pool.begin()
            try:
                yield made
            finally:
                nursery.cancel_scope.cancel()


async def test_question_waits_for_its_offset(tmp_path: Path) -> None:
    """Its caller has seen that state already. Others are answered meanwhile."""
    async with running(tmp_path) as made, trio.open_nursery() as nursery:
        found: list[Answer] = []

        async def ask() -> None:
            found.append(await made.ask(offset=2))

        nursery.start_soon(ask)
        assert b'"offset":1' in (await made.ask()).bodies[0]
        assert not found
        await made.pool.feed.send(ChangeBatch(2, (added(2),)))
        while not found:  # noqa: ASYNC110
            await trio.sleep(0.01)
        assert b'"offset":2' in found[0].bodies[0]


async def test_question_is_answered_by_the_state_that_its_caller_decides_by(tmp_path: Path) -> None:
    """Although a later one is known."""
    async with running(tmp_path) as made:
        await made.ask()
        for offset in (2, 3):
            await made.pool.feed.send(ChangeBatch(offset, (added(offset),)))
        assert b'"offset":3' in (await made.ask(offset=3)).bodies[0]
        assert b'"offset":2' in (await made.ask(offset=2)).bodies[0]


@pytest.mark.parametrize(
    ("principal", "reason"), [("die", LOST), ("fail", LOST), ("memory", NO_MEMORY)]
)
async def test_childs_failure_costs_one_answer(principal: str, reason: str, tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        for _ in range(2 * RUNNING_MAX):
            assert await made.refusal(principal) == reason
        assert (await made.ask()).allowed == (True,)
        assert len(made.processes) == 1
        failed = 0 if principal == "memory" else 2 * RUNNING_MAX
        await made.ended({"time": 0, "memory": 0, "failure": failed})


async def test_child_that_takes_too_much_memory_is_killed(tmp_path: Path) -> None:
    async with running(tmp_path, "--greedy") as made:
        for _ in range(2 * RUNNING_MAX):
            assert await made.refusal("sleep") == LOST
        await made.ended({"time": 0, "memory": 2 * RUNNING_MAX, "failure": 0})


@pytest.mark.parametrize("principal", ["sleep", "later"])
async def test_question_has_a_time_limit(principal: str, tmp_path: Path) -> None:
    """Its place is free for others then."""
    async with running(tmp_path) as made:
        await made.ask()
        for _ in range(RUNNING_MAX + 1):
            with pytest.raises(BusyError, match=r"took longer than 300 ms"):
                await made.ask(principal, offset=9 if principal == "later" else 1, timeout_ms=300)
        await made.ask()
        await made.ended({"time": RUNNING_MAX + 1, "memory": 0, "failure": 0})


async def test_child_ends_once_its_caller_has_gone(tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.ask, "sleep")
            child = await made.sleeping()
            nursery.cancel_scope.cancel()
        await ends(child)
        await made.ask()


async def test_questions_that_wait_are_limited(tmp_path: Path) -> None:
    refused: list[BusyError] = []

    async def ask(made: Running) -> None:
        try:
            await made.ask("sleep")
        except BusyError as error:
            refused.append(error)

    async with running(tmp_path) as made:
        await made.ask()
        async with trio.open_nursery() as nursery:
            for _ in range(RUNNING_MAX + WAITING_MAX + 1):
                nursery.start_soon(ask, made)
            while not refused:  # noqa: ASYNC110
                await trio.sleep(0.01)
            assert f"{WAITING_MAX} already wait" in str(refused[0])
            nursery.cancel_scope.cancel()
        assert await answered(made) == (True,)


async def test_slow_reader_of_a_listing_holds_up_nobody(tmp_path: Path) -> None:
    """Each listing is whole, and counts until it is closed."""
    async with running(tmp_path) as made:
        await made.pool.feed.send(ChangeBatch(2, tuple(map(added, range(2, 5000)))))
        begun = [await made.list(offset=2) for _ in range(LISTINGS_MAX)]
        with pytest.raises(BusyError, match=f"{LISTINGS_MAX} listings are in progress"):
            await made.list()
        assert (await made.ask()).allowed == (True,)
        for listing in begun:
            first, *acls, last = (await read(listing)).splitlines()
            assert (first, last) == (b'{"offset":2}', b'{"count":4999}')
            assert len(set(acls)) == 4999
            listing.close()
        while True:
            try:
                (await made.list()).close()
                break
            except BusyError:
                await trio.sleep(0.02)


async def test_listing_whose_child_is_killed_ends_with_an_error(tmp_path: Path) -> None:
    async with running(tmp_path, "--endless") as made:
        listing = await made.list()
        child = await made.sleeping()
        assert await listing.next_lines()
        os.kill(child, signal.SIGKILL)
        with pytest.raises(ClosingError, match=LOST):
            await read(listing)
        listing.close()
        assert await answered(made) == (True,)


async def test_lines_of_a_listing_are_limited(tmp_path: Path) -> None:
    async with running(tmp_path, "--endless", "--short") as made:
        listing = await made.list()
        with pytest.raises(ClosingError, match=LOST):
            await read(listing)
        listing.close()


async def read(listing: OpenAnswer) -> bytes:
    data = b""
    while lines := await listing.next_lines():
        data += lines
    return data


async def test_child_of_a_listing_keeps_only_its_own_file(tmp_path: Path) -> None:
    """Although other listings wait, and are read."""
    async with running(tmp_path, "--endless") as made:
        others = [await made.list() for _ in range(RUNNING_MAX)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.list)
            await trio.sleep(0.1)
            assert list_descriptors(await made.sleeping()) == ["/memfd", "pipe", "socket"]
            nursery.cancel_scope.cancel()
        for listing in others:
            listing.close()


async def test_child_keeps_nothing_of_its_parent(tmp_path: Path) -> None:
    """Only its question, the pipe that tells its end, and the directory that it reads here."""
    async with running(tmp_path) as made, trio.open_nursery() as nursery:
        nursery.start_soon(made.ask, "sleep")
        await made.sleeping()
        found = (await made.ask("descriptors")).bodies[0].decode().split()
        assert sorted(found) == ["pipe", "socket"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_killed_query_process_is_replaced(number: int, tmp_path: Path) -> None:
    """The questions under way are lost, with their children. One that is stopped is killed."""
    async with running(tmp_path) as made:
        lost: list[str] = []

        async def ask() -> None:
            lost.append(await made.refusal("sleep"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            child = await made.sleeping()
            os.kill(made.processes[0].pid, number)
        assert lost == [LOST]
        await ends(child)
        assert await answered(made) == (True,)
        assert len(made.processes) == 2


async def answered(made: Running) -> tuple[bool, ...]:
    """Return the answer to a question that is asked again whenever it is refused."""
    while True:
        try:
            return (await made.ask()).allowed
        except BusyError:
            await trio.sleep(0.05)


async def test_questions_are_refused_while_no_process_can_be_started(tmp_path: Path) -> None:
    async with running(tmp_path) as made:
        await made.ask()

        async def fail() -> tuple[trio.abc.Stream, trio.Process]:
            raise OSError(11, "Resource temporarily unavailable")

        made.spawn = fail  # type: ignore[method-assign]
        made.processes[0].kill()
        with trio.fail_after(STOPPED_MS / 1000):
            assert await made.refusal("a") == LOST


def test_process_ends_once_nobody_can_ask_it() -> None:
    """A daemon that is killed may close this socket before the feed."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        process = QueryProcess(theirs, theirs, new_work)
        ours.close()
        assert not process._receive_questions()


async def test_process_ends_with_the_daemon(tmp_path: Path) -> None:
    """With the questions under way."""
    async with running(tmp_path) as made, trio.open_nursery() as nursery:
        nursery.start_soon(made.ask, "sleep")
        child = await made.sleeping()
        process = made.processes[0].pid
        nursery.cancel_scope.cancel()
    await ends(child)
    assert not is_alive(process)
