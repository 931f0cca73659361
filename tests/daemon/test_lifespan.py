"""The order in which a daemon starts and ends, in this process."""

import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest
import trio

from authorizerd.actors import steps
from authorizerd.cli.acls.remote import KafkaAclAdmin
from authorizerd.config.configuration import parse
from authorizerd.daemon import lifespan
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.endpoints import DECISION_HTTP
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.lifespan import Daemon
from authorizerd.daemon.process.forced_end import ForcedEnd
from authorizerd.daemon.telemetry.ready_file import ReadyFile
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.metadata.meta_properties import MetaProperties
from tests.support.acls import acl
from tests.support.daemon_process import new_log, write_config
from tests.support.log_files import read_acls

SECONDS_MAX = 30


class RecordedEnd(ForcedEnd):
    """Keep the phases of the shutdown; never end this process."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[str] = []
        self.has_begun = trio.Event()

    def begin(self, seconds: int) -> None: ...

    def enter(self, phase: str) -> None:
        self.phases.append(phase)
        self.has_begun.set()


class HeldSync:
    """``os.fdatasync``, which waits while it is held."""

    def __init__(self) -> None:
        self._sync = os.fdatasync
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._is_waiting = trio.Event()

    def __call__(self, descriptor: int) -> None:
        if not self._goes_on.is_set():
            trio.from_thread.run_sync(self._is_waiting.set)
        assert self._goes_on.wait(SECONDS_MAX)
        self._sync(descriptor)

    def hold(self) -> None:
        self._goes_on.clear()

    async def wait_until_held(self) -> None:
        await self._is_waiting.wait()

    def release(self) -> None:
        self._goes_on.set()


def new_parts(config: Path) -> DaemonServices:
    """Return the parts of a daemon that never reloads its configuration."""
    configuration = parse(config.read_text(), source="test")
    return DaemonServices(configuration, pytest.fail, MetaProperties("cluster", 1, "A" * 22))


@asynccontextmanager
async def running(
    config: Path, ready_file: Path, forced_end: ForcedEnd | None = None
) -> AsyncIterator[Daemon]:
    """Run a daemon that must end in time."""
    with (
        trio.fail_after(SECONDS_MAX),
        closing(ServiceManager({})) as manager,
        closing(new_parts(config)) as parts,
    ):
        daemon = Daemon(parts, ready_file, manager, {}, forced_end or RecordedEnd())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.run)
            yield daemon


async def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - neither files nor texts have events
        await trio.sleep(0.01)


async def test_daemon_is_ready_only_once_every_endpoint_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an orchestrator would send clients to a port that refuses connections."""
    may_listen, serve = trio.Event(), Daemon._serve

    async def serve_late(daemon: Daemon, name: str) -> None:
        if name == DECISION_HTTP:
            await may_listen.wait()
        await serve(daemon, name)

    monkeypatch.setattr(Daemon, "_serve", serve_late)
    ready_file = tmp_path / "ready.json"
    config = write_config(tmp_path, new_log(tmp_path))
    async with running(config, ready_file) as daemon:
        await trio.testing.wait_all_tasks_blocked()
        readiness = daemon._readiness
        await wait_until(lambda: "endpoint to listen" in readiness.text or readiness.is_ready)
        assert not readiness.is_ready
        may_listen.set()
        await wait_until(ready_file.exists)
        assert readiness.is_ready
        os.kill(os.getpid(), signal.SIGTERM)


async def test_daemon_ends_if_the_socket_of_its_workers_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients would reach another daemon. Workers inherit the socket, and do not know its path."""
    path = tmp_path / "stream"

    async def start_no_worker(*_: object) -> None:
        raise OSError

    async def replace_socket(_: WorkerPool) -> None:
        path.unlink()
        path.touch()

    monkeypatch.setattr(lifespan, "start_worker", start_no_worker)
    monkeypatch.setattr(WorkerPool, "wait_until_complete", replace_socket)
    config = write_config(
        tmp_path,
        new_log(tmp_path),
        {"authorizerd.decision.stream": f"unix:{path}", "authorizerd.workers": "2"},
    )
    with pytest.raises(ExceptionGroup) as ended:
        async with running(config, tmp_path / "ready.json"):
            await trio.sleep_forever()
    assert ended.group_contains(StartError, match="another process has bound the path")


async def test_turns_of_the_daemon_are_followed_by_collections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    def count() -> bool:
        nonlocal turns
        turns += not gc.isenabled()
        return False

    monkeypatch.setattr(steps, "collect_if_many", count)
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)  # each step of the load is a turn
    ready_file = tmp_path / "ready.json"
    config = write_config(tmp_path, new_log(tmp_path))
    async with running(config, ready_file):
        await wait_until(ready_file.exists)
        os.kill(os.getpid(), signal.SIGTERM)
    assert turns


async def test_change_under_way_is_answered_and_durable_before_the_actors_and_the_audit_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is acknowledged during the shutdown survives it."""
    sync, forced_end = HeldSync(), RecordedEnd()
    monkeypatch.setattr(os, "fdatasync", sync)
    log_dir, ready_file, audit = new_log(tmp_path), tmp_path / "ready.json", tmp_path / "audit.log"
    config = write_config(
        tmp_path,
        log_dir,
        {
            "super.users": "User:ANONYMOUS",
            "authorizerd.audit.log": str(audit),
            "authorizerd.audit.level": "DEBUG",
        },
    )
    async with running(config, ready_file, forced_end):
        await wait_until(ready_file.exists)
        ready = msgspec.json.decode(ready_file.read_bytes(), type=ReadyFile)
        host, _, port = ready.listeners["PLAINTEXT"].rpartition(":")
        settings = ClientSettings(bootstrap=[Address(host, int(port))])
        async with KafkaClient(settings, pytest.fail) as client, trio.open_nursery() as changing:
            sync.hold()
            changing.start_soon(KafkaAclAdmin(client).create, [acl()])
            await sync.wait_until_held()
            os.kill(os.getpid(), signal.SIGTERM)
            await forced_end.has_begun.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert forced_end.phases == ["draining connections"]
            sync.release()
    assert forced_end.phases == [
        "draining connections",
        "writing accepted changes",
        "ending the actors",
        "writing audit lines",
        "closing files",
    ]
    assert [*read_acls(log_dir).values()] == [acl()]
    assert "CreateAcls" in audit.read_text()
