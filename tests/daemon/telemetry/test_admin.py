"""The admin port's handler (tests/end_to_end/test_serve.py checks its answers), and the build."""

from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

import authorizerd
from authorizerd.actors import steps
from authorizerd.daemon.telemetry import build
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import Request

REQUEST = Request(method="GET", path="/metrics", query="", headers={}, body=b"")


class NotAsked(Readiness):
    def __init__(self) -> None:
        pass


class Counting(Collector):
    """Count how often the metrics are collected, and list that number."""

    def __init__(self) -> None:
        self.listed = 0

    def collect(self) -> list[Metric]:
        self.listed += 1
        return [GaugeMetricFamily("listed", "", self.listed)]


def new_handler(counting: Counting, age_max_s: float = 0.0) -> AdminHandler:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(counting)
    counting.listed = 0
    return AdminHandler(registry, NotAsked(), metrics_age_max_s=age_max_s)


async def test_lists_of_metrics_yield_to_other_tasks() -> None:
    """Each takes milliseconds, and a peer may request hundreds at once."""
    counting, longest = Counting(), 0
    handler = new_handler(counting)
    is_done = False

    async def ask() -> None:
        nonlocal is_done
        for _ in range(20):
            await handler(REQUEST)
        is_done = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not is_done:
            before = counting.listed
            await trio.lowlevel.checkpoint()
            longest = max(longest, counting.listed - before)
    assert counting.listed == 20
    assert longest <= 2  # the loop shuffles its tasks


class Large(Collector):
    """A metric with many samples, a metric without samples, and others."""

    def collect(self) -> list[Metric]:
        times = HistogramMetricFamily("times", "Times\nof \\ APIs.", labels=["api"])
        count = CounterMetricFamily("counts", "Counts.", labels=["api"])
        for number in range(64):
            times.add_metric([f'a"{number}'], [("1.0", 1), ("+Inf", 2)], number / 3)
            count.add_metric([f"é{number}"], number)
        return [GaugeMetricFamily("none", "None.", labels=["a"]), times, count, count]


async def test_other_tasks_run_between_two_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written at once, the metrics of a busy daemon would hold the event loop."""
    pauses = []

    async def pause() -> None:
        pauses.append(1)

    monkeypatch.setattr(steps, "pause_if_due", pause)
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Large())
    answer = await AdminHandler(registry, NotAsked())(REQUEST)
    assert answer.body == generate_latest(Large())
    assert len(pauses) == len(Large().collect())


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/other"])
async def test_every_answer_yields_to_other_tasks(path: str) -> None:
    """A client may send hundreds of requests at once, and the metrics port sheds no load."""
    handler = new_handler(Counting())
    with trio.testing.assert_checkpoints():
        await handler(msgspec.structs.replace(REQUEST, path=path))


@pytest.mark.usefixtures("autojump_clock")
async def test_metrics_are_collected_again_only_after_their_maximum_age() -> None:
    """Otherwise anyone who reaches the metrics port could use up the daemon's CPU time."""
    handler = new_handler(Counting(), age_max_s=1)
    first = (await handler(REQUEST)).body
    assert b"listed 1.0" in first
    await trio.sleep(0.9)
    assert (await handler(REQUEST)).body == first
    await trio.sleep(0.1)
    assert b"listed 2.0" in (await handler(REQUEST)).body


RECORD = "authorizerd/a.py,sha256=A,1\nauthorizerd/b.py,sha256=B,2\n"


def read_build(monkeypatch: pytest.MonkeyPatch, record: str) -> str:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "RECORD"
            return record or None

    monkeypatch.setattr(build, "distribution", lambda name: Installed())
    build.read_build.cache_clear()
    try:
        return build.read_build()
    finally:
        build.read_build.cache_clear()


@pytest.mark.parametrize(
    ("record", "is_same"),
    [
        ("authorizerd/b.py,sha256=B,2\nauthorizerd/a.py,sha256=A,1\n", True),
        (
            f"{RECORD}authorizerd/__pycache__/a.pyc,,\nauthorizerd-1.dist-info/INSTALLER,sha256=C,4\n",
            True,
        ),
        (RECORD.replace("=B", "=C"), False),
        (RECORD.replace("b.py", "c.py"), False),
        (f"{RECORD}authorizerd/c.py,sha256=B,2\n", False),
    ],
)
def test_build_is_that_of_the_installed_modules(
    monkeypatch: pytest.MonkeyPatch, record: str, is_same: bool
) -> None:
    is_equal = read_build(monkeypatch, record) == read_build(monkeypatch, RECORD)
    assert is_equal == is_same


def test_checkouts_build_depends_on_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    room, root = tmp_path / "acl", tmp_path / "authorizerd"
    room.mkdir()
    root.mkdir()
    (root / "acl").symlink_to(room)
    monkeypatch.setattr(authorizerd, "__path__", [str(root)])
    builds = set()
    for name, content in (("acl/a.py", "1"), ("acl/a.py", "2"), ("b.py", "")):
        (root / name).write_text(content)
        builds.add(read_build(monkeypatch, ""))
    assert len(builds) == 3
    (root / "c.txt").write_text("")
    assert read_build(monkeypatch, "") in builds
