import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE
from authorizerd.actors.completion import Completion
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.sources.source import Source
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.daemon.telemetry.systemd import EXTENSION_SECONDS, MESSAGES_MAX, ServiceManager
from tests.end_to_end.fake_service_manager import NotifySocket

EXTENSION = {"EXTEND_TIMEOUT_USEC": str(EXTENSION_SECONDS * 1_000_000)}
MEAL = {"WATCHDOG": "1"}
RULES = f"judged by the rules of Kafka {UNKNOWN_RELEASE.rules}: {UNKNOWN_RELEASE.reason}"


class _Source(Source):
    """The source of an own log that was read up to offset 5."""

    high_watermark = 5
    metadata_version = -1
    status = None

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None: ...


class Place:
    """The parts behind readiness: an applier that loads on demand, and a gate."""

    def __init__(self) -> None:
        self.feed, inbox = trio.open_memory_channel[CaughtUp](1)
        self.applier = RecordApplier(inbox)
        self.opened = Completion[None]()
        self.gate = ListenerGate({"KAFKA": self.opened})
        self.readiness = Readiness(
            self.applier,
            self.gate,
            _Source(),
            StandardAuthorizer(self.applier.snapshot),
            lambda: True,
        )

    async def start(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.applier.run)
        await nursery.start(self.gate.run)

    async def load(self) -> None:
        await self.feed.send(CaughtUp(7))
        await self.applier.snapshot.wait_until(lambda newest: newest is not None)


@pytest.fixture
async def place(nursery: trio.Nursery) -> Place:
    place = Place()
    await place.start(nursery)
    return place


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[NotifySocket]:
    notify_socket = NotifySocket(str(tmp_path / "notify"))
    yield notify_socket
    notify_socket.close()


def environment_of(notified: NotifySocket, watchdog_us: int = 0) -> dict[str, str]:
    watchdog = {"WATCHDOG_USEC": str(watchdog_us), "WATCHDOG_PID": str(os.getpid())}
    return {"NOTIFY_SOCKET": notified.address} | (watchdog if watchdog_us else {})


async def test_nothing_is_sent_without_a_socket(nursery: trio.Nursery) -> None:
    place = Place()
    manager = ServiceManager({"WATCHDOG_USEC": "1000000"})
    with trio.fail_after(5):
        await manager.run(place.readiness)
    manager.report_ready()
    with manager.reloading():
        manager.report_stopping()
    manager.close()


def test_variables_are_removed_from_the_environment(notified: NotifySocket) -> None:
    environment = environment_of(notified, 1_000_000) | {"HOME": "/"}
    ServiceManager(environment).close()
    assert environment == {"HOME": "/"}


@pytest.mark.usefixtures("autojump_clock")
async def test_start_timeout_is_extended_only_while_loading(
    notified: NotifySocket, nursery: trio.Nursery, place: Place
) -> None:
    manager = ServiceManager(environment_of(notified))
    await nursery.start(manager.run, place.readiness)
    await trio.sleep(1.5)
    loading = {"STATUS": "loading: read up to log offset 5"}
    assert notified.receive_all() == [loading | EXTENSION, EXTENSION]
    await place.load()
    await trio.sleep(2)
    waiting = {"STATUS": "waiting for the authorizer to start every endpoint"}
    assert notified.receive_all() == [waiting]
    place.opened.succeed(None)
    await trio.sleep(2)
    ready = {"STATUS": f"ready: 0 ACLs at log offset 7; {RULES}"}
    assert notified.receive_all() == [ready]
    manager.report_ready()
    with manager.reloading():
        await trio.sleep(2)
    manager.report_stopping()
    await trio.sleep(2)
    told, reloading, reloaded, stopping = notified.receive_all()
    assert (told, reloaded) == (ready | {"READY": "1"}, ready | {"READY": "1"})
    assert reloading.pop("MONOTONIC_USEC").isdecimal()
    assert reloading == {"RELOADING": "1", "STATUS": "reloading"}
    assert stopping == {"STOPPING": "1", "STATUS": "draining"}
    manager.close()


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("watchdog_s", [0.5, 2.2, 3, 30])
async def test_watchdog_is_fed_twice_per_period(
    notified: NotifySocket, nursery: trio.Nursery, place: Place, watchdog_s: float
) -> None:
    await place.load()
    manager = ServiceManager(environment_of(notified, round(watchdog_s * 1e6)))
    await nursery.start(manager.run, place.readiness)
    await trio.sleep(watchdog_s * 2.25)
    meals = [message for message in notified.receive_all() if MEAL.items() <= message.items()]
    assert len(meals) == 5
    manager.close()


async def test_watchdog_is_not_fed_while_the_loop_hangs(
    notified: NotifySocket, nursery: trio.Nursery, place: Place
) -> None:
    manager = ServiceManager(environment_of(notified, 40_000))
    await nursery.start(manager.run, place.readiness)
    assert "WATCHDOG" in await trio.to_thread.run_sync(notified.receive)
    notified.receive_all()
    heard: list[dict[str, str]] = []
    thread = threading.Thread(target=lambda: heard.extend(heard_within(notified, 0.2)))
    thread.start()
    time.sleep(0.2)  # noqa: ASYNC251 - the loop is held
    thread.join()
    assert heard == []
    manager.close()


def heard_within(notified: NotifySocket, seconds: float) -> list[dict[str, str]]:
    try:
        return [notified.receive(seconds)]
    except TimeoutError:
        return []


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize(
    ("microseconds", "pid"), [("1000000", "1"), ("0", ""), ("soon", ""), ("-5", ""), ("9" * 99, "")]
)
async def test_watchdog_of_another_process_is_not_fed(
    notified: NotifySocket, nursery: trio.Nursery, place: Place, microseconds: str, pid: str
) -> None:
    environment = environment_of(notified) | {"WATCHDOG_USEC": microseconds, "WATCHDOG_PID": pid}
    manager = ServiceManager(environment)
    await nursery.start(manager.run, place.readiness)
    await trio.sleep(60)
    assert not any("WATCHDOG" in message for message in notified.receive_all())
    manager.close()


@pytest.mark.parametrize("address", ["vsock:2:1234", "notify", "/" + "n" * 200, "@" + "n" * 200])
def test_invalid_address_is_a_warning(address: str, caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address})
    manager.report_ready()
    manager.report_stopping()
    manager.close()
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("autojump_clock")
async def test_messages_wait_in_order_while_the_manager_is_away(
    tmp_path: Path, nursery: trio.Nursery, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    await nursery.start(manager.run, place.readiness)
    manager.report_ready()
    for _ in range(MESSAGES_MAX):
        with manager.reloading():
            await trio.sleep(2)
    assert len(caplog.records) == 1
    notified = NotifySocket(str(tmp_path / "notify"))
    messages: list[dict[str, str]] = []
    for _ in range(2):  # the kernel queues only ten messages
        await trio.sleep(2)
        messages += notified.receive_all()
    told = [key for message in messages for key in message if key in ("READY", "RELOADING")]
    assert told == ["RELOADING", "READY"] * (MESSAGES_MAX // 2)
    notified.close()
    manager.close()


def test_manager_that_reads_nothing_does_not_block(notified: NotifySocket) -> None:
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            full.sendto(b"STATUS=other", notified.address)
    manager = ServiceManager(environment_of(notified))
    manager.report_ready()
    assert {"READY": "1"}.items() not in [each.items() for each in notified.receive_all()]
    manager.report_stopping()
    assert [list(each) for each in notified.receive_all()] == [
        ["READY", "STATUS"],
        ["STOPPING", "STATUS"],
    ]
    full.close()
    manager.close()


def test_missing_descriptor_is_a_warning(
    notified: NotifySocket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    def fail(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("authorizerd.daemon.telemetry.systemd.socket.socket", fail)
    ServiceManager(environment_of(notified)).report_ready()
    assert "Too many open files" in caplog.text
