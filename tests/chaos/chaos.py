"""One run: faults, one after the other, while clients work and the checker compares."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Acl
from tests.chaos.checker import Checker
from tests.chaos.clients import (
    POOL,
    QUESTIONS,
    USERS,
    Client,
    HttpAsker,
    Intruder,
    KafkaAsker,
    Lister,
    StreamAsker,
    TlsAsker,
)
from tests.chaos.faults import Fault, Means, Stage
from tests.chaos.journal import Journal
from tests.chaos.origins import BEHIND_SECONDS_MAX, Origin
from tests.chaos.supervised_daemon import SupervisedDaemon
from tests.chaos.updaters import ClusterUpdater, Updater
from tests.support.certificates import expired
from tests.support.daemon_process import wait_until

RECOVERY_SECONDS_MAX: Final = 60.0

_UPDATERS: Final = 3
_STREAM_ASKERS: Final = 3
_HTTP_ASKERS: Final = 2
_LAST_ASKERS: Final = 10
"""So many that each worker is asked; the kernel chooses one for each connection."""
_TRIES: Final = 10
_POLL_SECONDS: Final = 0.05
_CALM_SECONDS_MAX: Final = 1.5


@dataclass
class Report:
    """The counts and findings of a run. ``recoveries`` has seconds by fault."""

    recoveries: dict[str, list[float]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class Chaos:
    """A daemon, its clients, and the checker.

    Args:
        origin: of the ACLs.
        folder: an empty directory, which has the logs of a run afterwards.
        seed: it decides what is sent and which faults come when. What the processes make of it
            differs each time.
        tell: takes a line about each fault.
        means: what the faults need.
        worker_count: 1: the daemon itself decides.
        recovery_seconds_max: how long it may take after a fault until every client is served.
    """

    def __init__(
        self,
        folder: Path,
        origin: Origin,
        seed: int,
        tell: Callable[[str], None],
        means: Means | None = None,
        worker_count: int = 2,
        recovery_seconds_max: float = RECOVERY_SECONDS_MAX,
    ) -> None:
        self.report = Report()
        self._chance = random.Random(seed)
        self._print = tell
        self._means = means or Means()
        self._origin = origin
        self._recovery_seconds_max = recovery_seconds_max
        shim = self._means.shim
        environment = {} if shim is None else shim.environment
        self._daemon = SupervisedDaemon(
            folder, origin.log_dir, origin.config, worker_count, environment
        )
        self._journal = Journal()
        starts = None if origin.has_log_offsets else self._daemon.start_times
        self._checker = Checker(self._journal, QUESTIONS, origin.given_offset, starts)
        self._clients = new_clients(self._daemon, self._journal, seed, origin)

    def run(self, faults: Iterable[Fault]) -> Report:
        """Run one fault after the other, check what is left, and return the report; blocks."""
        try:
            with self._origin.witness:
                with working(self._clients):
                    self._await_recovery("the start")
                    for fault in faults:
                        self._run_fault(fault)
                        self._checker.check(self._origin.witness.read)
                self._compare_end()
        finally:
            exit_code = self._daemon.close()
        self._demand(exit_code == 0, f"the daemon has ended with the exit code {exit_code}")
        self._demand("Traceback" not in self._daemon.read_log(), "the daemon's log has a traceback")
        wrong = self._origin.find_faults()
        self._demand(not wrong, f"check-log says: {wrong}")
        self._fill_report()
        return self.report

    def _run_fault(self, fault: Fault) -> None:
        starts = self._daemon.starts
        time.sleep(self._chance.uniform(0, _CALM_SECONDS_MAX))
        self._tell(f"{fault.name}: begins")
        fault.run(Stage(self._daemon, self._chance, self._means))
        self._await_recovery(fault.name)
        has_ended = self._daemon.starts != starts
        self._demand(fault.ends_daemon or not has_ended, f"the daemon has ended: {fault.name}")

    def _await_recovery(self, after: str) -> None:
        """Wait until all workers are there, and each client is served what it sent after now."""
        begin = time.monotonic()
        while not self._daemon.is_complete or self._find_late(begin):
            if time.monotonic() > begin + self._recovery_seconds_max:
                late = ", ".join(self._find_late(begin))
                self._demand(False, f"after {after}, not served in time: {late or 'workers'}")
                break
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - begin
        self.report.recoveries.setdefault(after, []).append(seconds)
        self._tell(f"{after}: all clients are served again after {seconds:.2f} s")

    def _tell(self, what: str) -> None:
        self._print(f"{time.monotonic() - self._journal.begun:8.2f} s: {what}")

    def _find_late(self, begin: float) -> set[str]:
        """Return the kinds of the clients that were not served since ``begin``."""
        return {type(each).__name__ for each in self._clients if each.served < begin}

    def _compare_end(self) -> None:
        """Compare what the daemon lists with the end of the log, once nothing changes any more.

        A daemon that follows a cluster may be behind for a while.
        """
        behind_seconds = 0.0 if self._origin.cluster is None else BEHIND_SECONDS_MAX
        give_up = time.monotonic() + behind_seconds
        for _ in range(_TRIES):
            before = self._checker.state.last_change
            listed = self._ask_at_the_end()
            self._checker.check(self._origin.witness.read)
            is_behind = listed != self._checker.state.acls and time.monotonic() < give_up
            if self._checker.state.last_change == before and not is_behind:
                self._demand(listed == self._checker.state.acls, "the end is not that of the log")
                return
            time.sleep(behind_seconds / _TRIES)
        self._demand(False, "the log goes on to change without clients")

    def _ask_at_the_end(self) -> frozenset[Acl]:
        """Enter answers to all questions of every kind; return the ACLs that are listed."""
        ports, chance = self._daemon.ports, self._chance
        askers = [StreamAsker(ports, self._journal, chance) for _ in range(_LAST_ASKERS)]
        lister = Lister(ports, self._journal, chance)
        with working([*askers, lister]) as clients:
            begin = time.monotonic()
            wait_until(
                lambda: all(each.served > begin for each in clients),
                "the last answers",
                self._recovery_seconds_max,
            )
        self._clients += clients
        return self._journal.listings[-1].acls

    def _demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            seconds = time.monotonic() - self._journal.begun
            self.report.violations.append(f"{otherwise}\n  (noticed at {seconds:.3f} s)")

    def _fill_report(self) -> None:
        report = self.report
        report.counts += self._checker.counts
        report.counts["starts of the daemon"] = self._daemon.starts
        if self._means.shim is not None:
            report.counts["calls of the disk that failed"] = self._means.shim.failed
        report.violations += self._checker.violations
        for client in self._clients:
            report.counts += client.counts
            report.violations += client.wrong


def new_clients(
    daemon: SupervisedDaemon, journal: Journal, seed: int, origin: Origin
) -> list[Client]:
    """Return clients of every kind; each ACL of the pool is changed by one of them."""
    ports, authority, cluster = daemon.ports, daemon.authority, origin.cluster
    shares = _UPDATERS + (cluster is not None)
    chances = (random.Random(f"{seed}-{number}") for number in count())
    certificates = {
        user: authority.client_context(authority.issue(user, common_name=user)) for user in USERS
    }
    outdated = authority.issue("expired", common_name=USERS[0], not_after=expired())
    clients: list[Client] = [
        Updater(ports, journal, next(chances), str(number), POOL[number::shares])
        for number in range(_UPDATERS)
    ]
    if cluster is not None:
        pool, chance = POOL[_UPDATERS::shares], next(chances)
        clients.append(ClusterUpdater(ports, journal, chance, pool, cluster, BEHIND_SECONDS_MAX))
    return [
        *clients,
        *(StreamAsker(ports, journal, next(chances)) for _ in range(_STREAM_ASKERS)),
        *(HttpAsker(ports, journal, next(chances)) for _ in range(_HTTP_ASKERS)),
        KafkaAsker(ports, journal, next(chances)),
        TlsAsker(ports, journal, next(chances), certificates, authority.client_context(outdated)),
        Lister(ports, journal, next(chances)),
        Intruder(ports, journal, next(chances)),
    ]


@contextmanager
def working(clients: Sequence[Client]) -> Iterator[Sequence[Client]]:
    """Let clients work in threads until the block ends."""
    with ThreadPoolExecutor(len(clients)) as threads:
        tasks = [threads.submit(client.run) for client in clients]
        try:
            yield clients
        finally:
            for client in clients:
                client.ends.set()
    for task in tasks:
        task.result()


def draw_faults(faults: Sequence[Fault], seed: int) -> Iterator[Fault]:
    """Yield faults without end, each of them once before any comes again."""
    chance = random.Random(f"faults-{seed}")
    while True:
        yield from chance.sample(faults, len(faults))
