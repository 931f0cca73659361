"""Detect and log the Kafka releases whose rules the daemon applies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from operator import ne
from typing import Final

from authorizerd.acl.filters import match_acls
from authorizerd.acl.hosts import HostKind, get_kind
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.release_in_force import ReleaseInForce, judge_release
from authorizerd.acl.releases import RULES_4_3
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.steps import collect
from authorizerd.config.configuration import Configuration
from authorizerd.image.cluster import ClusterImage

ACLS_NAMED_MAX: Final = 10
"""Maximum number of logged ACLs whose meaning would change."""

_logger = logging.getLogger("authorizerd")


def new_judge(configuration: Configuration) -> Callable[[ClusterImage], ReleaseInForce]:
    """Return a function that determines which releases' rules apply to an image's ACLs."""
    evidence, setting = configuration.evidence, configuration.kafka_release.chosen
    return lambda image: judge_release(image, evidence, setting)


async def log_releases(
    applied: View[AclSnapshot | None], releases: View[ReleaseInForce], *, is_own_log: bool
) -> None:
    """Log the releases in force once the ACLs are loaded, and each later change, until cancelled.

    For the daemon's own log with 4.3's rules, name the ACLs whose meaning 4.4 would change.
    """
    await applied.wait_until(lambda newest: newest is not None)
    if is_own_log and releases.newest.rules == RULES_4_3 and applied.newest is not None:
        await _log_ranges(applied.newest)
    while True:
        release = releases.newest
        _logger.info("ACLs are judged by the rules of Kafka %s: %s", release.rules, release.reason)
        if release.newer:
            _logger.warning("%s: upgrade the daemon (authorizerd.kafka.release)", release.newer)
        await releases.wait_until(partial(ne, release))


async def _log_ranges(snapshot: AclSnapshot) -> None:
    """Log the first ACLs whose host 4.4 may read as a range, and their number."""
    found = 0
    for acls in await collect(map(_select_ranges, match_acls(snapshot, AclFilter()))):
        for acl in acls[: max(ACLS_NAMED_MAX - found, 0)]:
            _logger.info("by the rules of Kafka 4.4, this ACL's host may be a range: %s", acl)
        found += len(acls)
    if found:
        _logger.warning(
            "%d ACLs have a host with a slash. It matches nothing by the rules of Kafka 4.3, but "
            "may be a range by the rules of 4.4, which authorizerd features upgrade enables",
            found,
        )


def _select_ranges(acls: Iterable[Acl]) -> tuple[Acl, ...]:
    return tuple(acl for acl in acls if get_kind(acl.host) is HostKind.RANGE)
