"""One run: faults, one after the other, while clients work and the judge compares."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Acl
from tests.chaos.clients import CertifiedTopics, ClusterUpdater, Topics, Updater
from tests.chaos.faults import Fault, Means, Stage
from tests.chaos.origins import BEHIND_SECONDS_MAX, Origin
from tests.chaos.supervised_daemon import USERS, SupervisedDaemon
from tests.fleet.client import Client, working
from tests.fleet.clients import Batches, Descriptions, Evaluations, StreamQuestions, WrongTokens
from tests.fleet.journal import Journal
from tests.fleet.judge import LogJudge
from tests.fleet.log_reader import ReadLog
from tests.fleet.universe import DAEMON
from tests.support.certificates import expired
from tests.support.daemon_process import run, wait_until

RECOVERY_SECONDS_MAX: Final = 60.0

_UPDATERS: Final = 3
_STREAM_CLIENTS: Final = 3
_HTTP_CLIENTS: Final = 2
_DESCRIBING: Final = 2
_LAST_CLIENTS: Final = 10
"""So many that each worker is asked; the kernel chooses one for each connection."""
_POOL: Final = 50
"""How many ACLs come and go: together they decide each question differently."""
_PAUSE_SECONDS: Final = 0.01
"""The mean time between two exchanges of a client that asks."""
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
    """A daemon, its clients, and the judge.

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
        self._journal = Journal()
        self._daemon = SupervisedDaemon(
            folder, origin.log_dir, origin.config, worker_count, self._journal, environment
        )
        starts = None if origin.has_log_offsets else self._daemon.start_times
        self._judge = LogJudge(self._journal, origin.given_offset, starts)
        self._clients = new_clients(self._daemon, seed, origin)

    def run(self, faults: Iterable[Fault]) -> Report:
        """Run one fault after the other, check what is left, and return the report; blocks."""
        try:
            with self._origin.witness as read:
                with self._working(self._clients):
                    self._await_recovery("the start")
                    for fault in faults:
                        self._run_fault(fault)
                        self._judge.check(read)
                self._compare_end(read)
        finally:
            exit_code = self._daemon.close()
        self._demand(exit_code == 0, f"the daemon has ended with the exit code {exit_code}")
        logged = self._daemon.log_file.read_text(errors="replace")
        self._demand("Traceback" not in logged, "the daemon's log has a traceback")
        if self._origin.cluster is None:
            checked = run("check-log", self._origin.log_dir)
            self._demand(not checked.returncode, f"check-log says: {checked.stdout}")
        self._fill_report()
        return self.report

    def _run_fault(self, fault: Fault) -> None:
        starts = len(self._daemon.start_times)
        time.sleep(self._chance.uniform(0, _CALM_SECONDS_MAX))
        self._tell(f"{fault.name}: begins")
        fault.run(Stage(self._daemon, self._chance, self._means))
        self._await_recovery(fault.name)
        has_ended = len(self._daemon.start_times) != starts
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
        return {each.name for each in self._clients if each.tally.served < begin}

    def _compare_end(self, read: ReadLog) -> None:
        """Compare what the daemon lists, a follower after a while, with the end of the log."""
        behind_seconds = 0.0 if self._origin.cluster is None else BEHIND_SECONDS_MAX
        give_up = time.monotonic() + behind_seconds
        for _ in range(_TRIES):
            before = self._judge.state.last_change
            listed = self._ask_at_the_end()
            self._judge.check(read)
            is_behind = listed != self._judge.state.acls and time.monotonic() < give_up
            if self._judge.state.last_change == before and not is_behind:
                self._demand(listed == self._judge.state.acls, "the end is not that of the log")
                return
            time.sleep(behind_seconds / _TRIES)
        self._demand(False, "the log goes on to change without clients")

    def _ask_at_the_end(self) -> frozenset[Acl]:
        """Enter answers to all questions of every kind; return the ACLs that are listed."""
        daemon, chance = self._daemon, self._chance
        asking = [StreamQuestions(daemon, chance) for _ in range(_LAST_CLIENTS)]
        describing = Descriptions(daemon, chance)
        describing.whole_share = 1.0
        with self._working([*asking, describing]) as clients:
            begin = time.monotonic()
            wait_until(
                lambda: all(each.tally.served > begin for each in clients),
                "the last answers",
                self._recovery_seconds_max,
            )
        self._clients += clients
        return self._journal.listings[-1].acls

    def _working(self, clients: Sequence[Client]) -> AbstractContextManager[Sequence[Client]]:
        def report(client: Client, fault: str) -> None:
            self.report.violations.append(f"{client.name}: {fault}")

        return working(clients, report, lambda _: True)

    def _demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            seconds = time.monotonic() - self._journal.begun
            self.report.violations.append(f"{otherwise}\n  (noticed at {seconds:.3f} s)")

    def _fill_report(self) -> None:
        report = self.report
        report.counts += self._judge.counts
        report.counts["starts of the daemon"] = len(self._daemon.start_times)
        if self._means.shim is not None:
            report.counts["calls of the disk that failed"] = self._means.shim.failed
        report.violations += self._judge.violations
        for client in self._clients:
            report.counts["connections that broke"] += client.tally.cut
            report.counts[f"exchanges of: {client.name}"] += len(client.tally.seconds)
            for reason, number in client.tally.refused.items():
                report.counts[f"refused: {reason}"] += number
            if isinstance(client, CertifiedTopics):
                report.counts["requests with an expired certificate"] += client.refused


def new_clients(daemon: SupervisedDaemon, seed: int, origin: Origin) -> list[Client]:
    """Return clients of every kind; each ACL of the pool is changed by one of them."""
    authority, cluster = daemon.authority, origin.cluster
    shares = _UPDATERS + (cluster is not None)
    pool = DAEMON.draw_pool(random.Random(f"pool-{seed}"), _POOL)
    chances = (random.Random(f"{seed}-{number}") for number in count())
    certificates = {
        f"User:{user}": authority.client_context(authority.issue(user, common_name=user))
        for user in USERS
    }
    outdated = authority.issue("expired", common_name=USERS[0], not_after=expired())
    asking: list[Client] = [
        *(StreamQuestions(daemon, next(chances)) for _ in range(_STREAM_CLIENTS)),
        *(Batches(daemon, next(chances)) for _ in range(_HTTP_CLIENTS)),
        Evaluations(daemon, next(chances)),
        Topics(daemon, next(chances)),
        CertifiedTopics(daemon, next(chances), certificates, authority.client_context(outdated)),
    ]
    for each in asking:
        each.pause_seconds = _PAUSE_SECONDS
    clients = [
        *(
            Updater(daemon, next(chances), str(number), pool[number::shares])
            for number in range(_UPDATERS)
        ),
        *asking,
        *(Descriptions(daemon, next(chances)) for _ in range(_DESCRIBING)),
        WrongTokens(daemon, next(chances)),
    ]
    if cluster is not None:
        last = pool[_UPDATERS::shares]
        clients.append(ClusterUpdater(daemon, next(chances), last, cluster, BEHIND_SECONDS_MAX))
    return clients


def draw_faults(faults: Sequence[Fault], seed: int) -> Iterator[Fault]:
    """Yield faults without end, each of them once before any comes again."""
    chance = random.Random(f"faults-{seed}")
    while True:
        yield from chance.sample(faults, len(faults))
