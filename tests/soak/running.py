"""Run the daemons of a soak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.soak.brokers import BrokersSite, running_brokers
from tests.soak.disk import small_disk
from tests.soak.sites import FollowerSite, OwnLogSite, Site
from tests.support.quorum_thread import running_quorum

Sites = tuple[OwnLogSite, FollowerSite, BrokersSite]


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
        places = [folder / "own", folder / "follower", folder / "brokers"]
        for place in places:
            place.mkdir()
        own = OwnLogSite(places[0], ballast=ballast, log_disk=log_disk, audit_disk=audit_disk)
        stack.callback(_kill, own)
        follower = FollowerSite(
            places[1], ballast=ballast, disk=copy_disk, quorum=quorum, writes=writes
        )
        stack.callback(_kill, follower)
        brokers = BrokersSite(places[2], ballast=ballast, disk=listed_disk, brokers=cluster)
        stack.callback(_kill, brokers)
        yield own, follower, brokers


def _kill(site: Site) -> None:
    if site.exit_code is None:
        with suppress(ProcessLookupError):
            site.stop()
