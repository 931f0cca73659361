"""Run the daemons, drive the clients, disturb all, and take samples, until the time is over."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles
from threading import Event, Lock, Thread
from typing import Final

from tests.fleet.client import Client, working
from tests.fleet.clients import Descriptions, WrongTokens
from tests.fleet.disk import small_disk
from tests.soak.brokers import BrokersSite, BrokersWriter, disturbances_of_brokers, running_brokers
from tests.soak.disturbances import Disturbance, disturbances_of_follower, disturbances_of_own
from tests.soak.flatness import Sample, sample
from tests.soak.load import CLIENTS, SecureDescriptions, Watches
from tests.soak.log_ins import LOG_INS, CertifiedDescriptions, WrongCertificates
from tests.soak.refusals import REFUSALS
from tests.soak.sites import FollowerSite, OwnLogSite, Site, wait_until
from tests.soak.writers import OwnLogWriter, QuorumWriter, ThroughWriter
from tests.support.quorum_thread import running_quorum

FAULTS_MAX: Final = 20
"""The soak ends early after so many."""
SAMPLE_SECONDS: Final = 5.0
EXPECTED_ERRORS: Final = (
    "No space left on device",
    "the configuration is not reloaded",
    "it has ended with code -9",
)
_LEFT: Final = (
    "authorizerd_updates_waiting",
    'authorizerd_purgatory_size{operation="acl-update"}',
    'authorizerd_stream_connections{listener="decision_stream"}',
    'authorizerd_http_connections{listener="decision_http"}',
)
_KAFKA_CONNECTIONS: Final = "authorizerd_kafka_connections{"

Sites = tuple[OwnLogSite, FollowerSite, BrokersSite]
Series = dict[tuple[str, str], list[Sample]]
"""Samples by the name of a process, or of a client, and by the quantity."""


class Soak:
    """One soak of all daemons.

    Attributes:
        tallies: by the names of daemon and client.
        disturbances: of each daemon, by name.
        clients: all of them.
        site_of: the daemon of each.
        disturbed: how often each disturbance came, by the names of daemon and disturbance.
        series: what was sampled.
        faults: everything that was wrong, with the second in which it was noticed.
    """

    def __init__(self, sites: Sites, *, seed: int) -> None:
        self.sites: tuple[Site, ...] = sites
        own, follower, brokers = sites
        self.disturbed: Counter[tuple[str, str]] = Counter()
        self.series: Series = defaultdict(list)
        self.faults: list[str] = []
        self._seed = seed
        self._calm = Event()
        self._lock = Lock()
        self._begun = time.monotonic()
        kinds: Mapping[Site, Sequence[type[Client]]] = {
            own: (
                *CLIENTS, *LOG_INS, *REFUSALS, SecureDescriptions, CertifiedDescriptions,
                WrongCertificates, WrongTokens, Watches, OwnLogWriter,
            ),
            follower: (*CLIENTS, *LOG_INS, *REFUSALS, QuorumWriter, ThroughWriter),
            brokers: (*CLIENTS, BrokersWriter),
        }  # fmt: skip
        self.site_of = {
            kind(site, self._random(site.name, kind.name)): site
            for site in self.sites
            for kind in kinds[site]
        }
        self.clients = [*self.site_of]
        self.tallies = {(site.name, each.name): each.tally for each, site in self.site_of.items()}
        self.disturbances: dict[Site, dict[str, Disturbance]] = {
            own: disturbances_of_own(own),
            follower: disturbances_of_follower(follower, self._random(follower.name, "leaders")),
            brokers: disturbances_of_brokers(brokers, self._random(brokers.name, "brokers")),
        }

    def _random(self, *names: str) -> Random:
        return Random(f"{self._seed}/{'/'.join(names)}")

    def run(self, seconds: float, *, disturbance_seconds: float) -> None:
        """Run for this time, or until there are too many faults.

        Args:
            disturbance_seconds: the mean time between two disturbances of a daemon.
        """
        disturbing = [
            Thread(target=self._disturb, args=(site, disturbance_seconds)) for site in self.sites
        ]
        with working(self.clients, self._report_of, self._may_be_cut):
            for thread in disturbing:
                thread.start()
            try:
                self._watch(self._begun + seconds)
            finally:  # the last disturbance needs clients for its effect
                self._calm.set()
                for thread in disturbing:
                    thread.join()
        self._check_rest()

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the soak reports it
            self.report(f"{what}: {error!r}")

    def report(self, fault: str) -> None:
        """Keep a fault, and print it at once."""
        with self._lock:
            self.faults.append(f"second {time.monotonic() - self._begun:.0f}: {fault}")
            sys.stderr.write(f"{self.faults[-1]}\n")

    def _report_of(self, client: Client, fault: str) -> None:
        self.report(f"{self.site_of[client].name}: {client.name}: {fault}")

    def _may_be_cut(self, client: Client) -> bool:
        return client.has_worker and self.site_of[client].allows_cuts

    def run_in_turns(self, rounds: int) -> None:
        """In each round, let each client ask once, then disturb each daemon; no time counts."""
        disturbing = {site: self._disturb_in_turns(site) for site in self.sites}
        try:
            for _ in range(rounds):
                for client in self.clients:
                    fault = client.attempt(self._may_be_cut)
                    if fault is not None:
                        self._report_of(client, fault)
                for each in disturbing.values():
                    next(each)
        finally:
            for client in self.clients:
                client.close()
        self._check_rest()

    def _disturb(self, site: Site, mean_seconds: float) -> None:
        random, disturbing = self._random(site.name, "pauses"), self._disturb_in_turns(site)
        while not self._calm.wait(random.uniform(0.5, 1.5) * mean_seconds):
            next(disturbing)

    def _disturb_in_turns(self, site: Site) -> Iterator[None]:
        """Disturb a daemon at each step, in each way before one comes again."""
        random, disturbances = self._random(site.name, "disturbances"), self.disturbances[site]
        while True:
            for name in random.sample(sorted(disturbances), len(disturbances)):
                with self._reporting(f"{site.name}: {name}"):
                    disturbances[name]()
                self.disturbed[site.name, name] += 1
                yield

    def _watch(self, end: float) -> None:
        """Take samples until ``end``."""
        seen: Counter[tuple[str, str]] = Counter()
        while (left := end - time.monotonic()) > 0 and len(self.faults) < FAULTS_MAX:
            time.sleep(min(left, SAMPLE_SECONDS))
            for site in self.sites:
                if site.exit_code is not None:
                    self.report(f"{site.name}: the daemon has ended with code {site.exit_code}")
                    return
            self._sample(seen)

    def _sample(self, seen: Counter[tuple[str, str]]) -> None:
        now = time.monotonic() - self._begun
        for site in self.sites:
            with self._reporting(f"{site.name}: sample"):
                for process, values in sample(site):
                    for quantity, value in values.items():
                        self.series[process, quantity].append((now, value))
        for key, tally in self.tallies.items():
            since, seen[key] = tally.seconds[seen[key] :], len(tally.seconds)
            if len(since) > 1:
                slowest = quantiles(since, n=100, method="inclusive")[98]
                self.series[": ".join(key), "p99 ms"].append((now, slowest * 1000))

    def _check_rest(self) -> None:
        """Check that nothing is left once all clients are gone, and that no request failed."""
        for site in self.sites:
            if site.exit_code is not None:
                continue
            with self._reporting(f"{site.name}: at rest"):
                wait_until(partial(_is_at_rest, site), "queues and connections are gone at rest")
                for name, value in site.metrics().items():
                    if name.startswith("authorizerd_http_requests_failed_total") and value:
                        self.report(f"{site.name}: {name} is {value:.0f}")

    def stop(self) -> None:
        """Stop all daemons. Check how they end, what a restart has kept, and what they logged."""
        for site in self.sites:
            self._stop(site)
            with self._reporting(f"{site.name}: restart"):
                site.start()
                listing = Descriptions(site, Random(0))
                listing.whole_share = 1.0
                with closing(listing):
                    listing.exchange()
            self._stop(site)
            for line in find_unexpected(site.log_file.read_text()):
                self.report(f"{site.name}: logged: {line}")

    def _stop(self, site: Site) -> None:
        if code := site.stop():
            self.report(f"{site.name}: exit code {code}")


def find_unexpected(log: str) -> list[str]:
    """Return the lines of a daemon's log that no disturbance explains: tracebacks and errors."""
    return [
        line
        for line in log.splitlines()
        if "Traceback" in line
        or (" ERROR " in line and not any(each in line for each in EXPECTED_ERRORS))
    ]


def _is_at_rest(site: Site) -> bool:
    metrics = site.metrics()
    left = [value for name, value in metrics.items() if name.startswith(_KAFKA_CONNECTIONS)]
    return not any(left + [metrics[each] for each in _LEFT])


@contextmanager
def running_sites(
    folder: Path, *, ballast: int, writes: str, may_mount: bool = True
) -> Iterator[Sites]:
    """Run all daemons until the block ends; kill them then if they still run.

    Args:
        ballast: the number of fixed ACLs.
        writes: how the follower sends changes to the controllers, one of ``WRITES``.
        may_mount: False to give them disks that cannot be filled.
    """
    with ExitStack() as stack:
        log_disk, audit_disk, copy_disk, listed_disk = (
            stack.enter_context(small_disk(folder / f"{name}-disk", may_mount=may_mount))
            for name in ("log", "audit", "copy", "listed")
        )
        quorum = stack.enter_context(running_quorum())
        cluster = stack.enter_context(running_brokers())
        own = OwnLogSite(folder, ballast=ballast, log_disk=log_disk, audit_disk=audit_disk)
        stack.callback(own.stop)
        follower = FollowerSite(
            folder, ballast=ballast, disk=copy_disk, quorum=quorum, writes=writes
        )
        stack.callback(follower.stop)
        brokers = BrokersSite(folder, ballast=ballast, disk=listed_disk, brokers=cluster)
        stack.callback(brokers.stop)
        yield own, follower, brokers
