"""The faults: each one is done to the real processes, and undone at its end."""

import errno
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from tests.chaos.means import PrivateNetwork, Shim
from tests.chaos.supervised_daemon import SupervisedDaemon
from tests.fleet.disk import Disk
from tests.kafka_rig.cluster import Cluster
from tests.support.daemon_process import wait_until

_DAY: Final = 86_400
_EFFECT_SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Means:
    """What some faults need; None if this machine lacks it."""

    cluster: Cluster | None = None
    shim: Shim | None = None
    disk: Disk | None = None
    network: PrivateNetwork | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """What faults are done to, and where their strength comes from."""

    daemon: SupervisedDaemon
    chance: random.Random
    means: Means

    @property
    def cluster(self) -> Cluster:
        assert self.means.cluster is not None
        return self.means.cluster

    @property
    def shim(self) -> Shim:
        assert self.means.shim is not None
        return self.means.shim

    @property
    def network(self) -> PrivateNetwork:
        assert self.means.network is not None
        return self.means.network

    def wait(self, seconds_min: float, seconds_max: float) -> None:
        time.sleep(self.chance.uniform(seconds_min, seconds_max))

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for what a slow machine does late; go on without it after a time."""
        with suppress(AssertionError):
            wait_until(holds, "", _EFFECT_SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class Fault:
    """``run`` does it and undoes it.

    Args:
        needs: the field of ``Means`` that it needs, or ``workers``, if any.
        ends_daemon: whether the daemon may end. Otherwise, its end is a violation.
    """

    name: str
    run: Callable[[Stage], None]
    _: KW_ONLY
    needs: str = ""
    ends_daemon: bool = False


Choose: TypeAlias = Callable[[Stage], Sequence[int]]
"""Return some of the daemon's processes."""


def _daemon(stage: Stage) -> Sequence[int]:
    return [stage.daemon.process_id]


def _workers(stage: Stage) -> Sequence[int]:
    return stage.daemon.workers


def _worker(stage: Stage) -> Sequence[int]:
    """Return one worker, if there is any just now."""
    workers = stage.daemon.workers
    return [stage.chance.choice(workers)] if workers else []


def _sending(number: signal.Signals, choose: Choose) -> Callable[[Stage], None]:
    return lambda stage: _send(choose(stage), number)


_kill_daemon: Final = _sending(signal.SIGKILL, _daemon)


def _kill_at_the_start(stage: Stage) -> None:
    """Kill the daemon, and kill it again while it starts."""
    for _ in range(2):
        _kill_daemon(stage)
        stage.wait(0.2, 1.5)
    _kill_daemon(stage)


def _stopping(choose: Choose, seconds_min: float, seconds_max: float) -> Callable[[Stage], None]:
    def run(stage: Stage) -> None:
        with _stopped(choose(stage)):
            stage.wait(seconds_min, seconds_max)

    return run


def _kill_daemon_of_a_stopped_worker(stage: Stage) -> None:
    """The worker keeps the ports until it goes on, and must answer nothing then."""
    with _stopped(_worker(stage)):
        _kill_daemon(stage)
        stage.wait(0.5, 3)


def _stop_all(stage: Stage) -> None:
    """The machine sleeps: all processes stop and go on, in any order."""
    every = [stage.daemon.process_id, *stage.daemon.workers]
    stage.chance.shuffle(every)
    with _stopped(every):
        stage.wait(0.5, 4)
        stage.chance.shuffle(every)


def _have_errors(name: str) -> Callable[[Stage], None]:
    """Let calls of the daemon fail; it then ends, and cannot start."""

    def run(stage: Stage) -> None:
        shim = stage.shim
        before = shim.failed
        with shim.having(name, errno.EIO):
            stage.wait_until(lambda: shim.failed > before)
            stage.wait(0.5, 3)

    return run


def _have_read_errors(stage: Stage) -> None:
    """The daemon reads its log only at a start."""
    shim = stage.shim
    before = shim.failed
    with shim.having("read_errno", errno.EIO):
        _kill_daemon(stage)
        stage.wait_until(lambda: shim.failed > before)
        stage.wait(0, 2)


def _slow_disk(stage: Stage) -> None:
    with stage.shim.having("delay_us", stage.chance.randint(20_000, 200_000)):
        stage.wait(1, 4)


def _kill_on_a_slow_disk(stage: Stage) -> None:
    """The daemon probably waits for a write or a sync."""
    with stage.shim.having("delay_us", 100_000):
        stage.wait(0.5, 1)
        _kill_daemon(stage)


def _step_the_clock(stage: Stage) -> None:
    seconds = stage.chance.choice((-40 * _DAY, -3600, -1, 1, 3600, 40 * _DAY))
    with stage.shim.having("clock_step_ns", seconds * 10**9):
        stage.wait(1, 3)


def _step_the_clock_at_a_start(stage: Stage) -> None:
    """The log then has later times than the clock that goes on."""
    with stage.shim.having("clock_step_ns", stage.chance.choice((-_DAY, _DAY)) * 10**9):
        stage.daemon.ready_file.unlink(missing_ok=True)
        _kill_daemon(stage)
        stage.wait_until(stage.daemon.ready_file.exists)
        stage.wait(0.5, 2)
    _kill_daemon(stage)


def _fill_the_disk(stage: Stage) -> None:
    assert stage.means.disk is not None
    with stage.means.disk.full():
        stage.wait(0.5, 4)


def _let_the_certificate_expire(stage: Stage) -> None:
    """Until it is renewed, clients that check it send nothing."""
    stage.daemon.renew_certificate(timedelta(seconds=1.5))
    stage.wait(2.5, 4)
    stage.daemon.renew_certificate()


def _lose_packets(stage: Stage) -> None:
    with stage.network.losing(stage.chance.uniform(0.02, 0.3)):
        stage.wait(1, 4)


def _lose_packets_and_kill(stage: Stage) -> None:
    with stage.network.losing(0.1):
        stage.wait(0.2, 1)
        _kill_daemon(stage)
        stage.wait(0.5, 2)


def _slow_network(stage: Stage) -> None:
    with stage.network.slow(stage.chance.choice((500, 2000, 8000))):
        stage.wait(1, 4)


def _cut_off_all(stage: Stage) -> None:
    """Clients wait, give up, and connect again; what they have sent may arrive much later."""
    with stage.network.cut_off(stage.daemon.ports):
        stage.wait(0.5, 5)


def _cut_off_one_port(stage: Stage) -> None:
    with stage.network.cut_off([stage.chance.choice(stage.daemon.ports)]):
        stage.wait(0.5, 5)


FAULTS: Final[Sequence[Fault]] = (
    Fault("kill -9 of the daemon", _kill_daemon, ends_daemon=True),
    Fault("kill -9 of the daemon, three times", _kill_at_the_start, ends_daemon=True),
    Fault("SIGTERM of the daemon", _sending(signal.SIGTERM, _daemon), ends_daemon=True),
    Fault("SIGSTOP of the daemon", _stopping(_daemon, 0.5, 4)),
    Fault("kill -9 of a worker", _sending(signal.SIGKILL, _worker), needs="workers"),
    Fault("kill -9 of all workers", _sending(signal.SIGKILL, _workers), needs="workers"),
    # For a moment, the daemon still waits for it. Later, it gives it up, kills and replaces it.
    Fault("SIGSTOP of a worker, for a moment", _stopping(_worker, 0.2, 1), needs="workers"),
    Fault("SIGSTOP of a worker, until it is replaced", _stopping(_worker, 4, 6), needs="workers"),
    Fault(
        "kill -9 while a worker is stopped", _kill_daemon_of_a_stopped_worker, needs="workers",
        ends_daemon=True,
    ),
    Fault("SIGSTOP of all processes", _stop_all),
    Fault("EIO of writes", _have_errors("write_errno"), needs="shim", ends_daemon=True),
    Fault("EIO of syncs", _have_errors("sync_errno"), needs="shim", ends_daemon=True),
    Fault("EIO of reads at a start", _have_read_errors, needs="shim", ends_daemon=True),
    Fault("slow disk", _slow_disk, needs="shim"),
    Fault("slow disk and kill -9", _kill_on_a_slow_disk, needs="shim", ends_daemon=True),
    Fault("clock step", _step_the_clock, needs="shim"),
    Fault("clock step at a start", _step_the_clock_at_a_start, needs="shim", ends_daemon=True),
    Fault("full disk", _fill_the_disk, needs="disk", ends_daemon=True),
    Fault("certificate expiry", _let_the_certificate_expire),
    Fault("packet loss", _lose_packets, needs="network"),
    Fault("packet loss and kill -9", _lose_packets_and_kill, needs="network", ends_daemon=True),
    Fault("slow network", _slow_network, needs="network"),
    Fault("partition from all clients", _cut_off_all, needs="network"),
    Fault("partition of one port", _cut_off_one_port, needs="network"),
)  # fmt: skip


@contextmanager
def _stopped(processes: Sequence[int]) -> Iterator[None]:
    """Stop processes; let those go on that have not ended."""
    _send(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(processes, signal.SIGCONT)


def _send(processes: Sequence[int], number: signal.Signals) -> None:
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)
