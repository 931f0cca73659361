"""What the pages say of the cluster: its name, its release, and its super users.

**Invariant:** what is not known, or not shown to the visitor, is never shown as if it were none.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Final

import msgspec

from authorizerd.acl.releases import Release
from authorizerd.actors.standard_authorizer import SUPER_USERS, StandardAuthorizer
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import ConfigSource, Layers
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.protocol.http.rights import SEARCHES_OF_ALL

SUPER_USERS_MAX: Final = 20
_NAMES: Final = {Release.KAFKA_4_3: "3.9 to 4.3", Release.KAFKA_4_4: "4.4"}
"""The releases that each of ours stands for."""
_ORIGINS: Final = {
    ConfigSource.STATIC_BROKER: "from the configuration file",
    ConfigSource.DYNAMIC_BROKER: "set by a client since the file was read",
    ConfigSource.DEFAULT: f"{SUPER_USERS} is not set",
}


class Cluster(msgspec.Struct, frozen=True):
    """The cluster, as every page names it.

    Attributes:
        name: as the operator calls it, or empty.
        id: empty until it is known.
        release: the Kafka releases whose rules are in force.
    """

    name: str
    id: str
    release: str


class SuperUsers(msgspec.Struct, frozen=True):
    """The first super users by name, and how many more there are.

    Attributes:
        origin: where the list comes from, or why it is not known.
    """

    names: tuple[str, ...] | None
    others: int
    origin: str


def describe_cluster(configuration: Configuration, sources: MetricSources) -> Cluster:
    """Return what every page says of the cluster now."""
    possible = [_NAMES[each] for each in sources.applier.release.newest.rules.releases]
    release = f"rules of Kafka {' or '.join(possible)}"
    if len(possible) > 1:
        release += ": not known which"
    return Cluster(configuration.console_name, sources.origin.cluster_id, release)


def describe_super_users(
    sources: MetricSources, layers: Callable[[], Layers], caller: Caller
) -> SuperUsers:
    """Return the daemon's super users, if the visitor may see them."""
    authorizer = sources.authorizer
    if not isinstance(authorizer, StandardAuthorizer):
        return SuperUsers(None, 0, "not known: the authorizer is a class of its own")
    try:
        caller.check(SEARCHES_OF_ALL)
    except ForbiddenError as error:
        return SuperUsers(None, 0, f"not shown: {error}")
    found = authorizer.current_state().settings.super_users
    names = tuple(nsmallest(SUPER_USERS_MAX, found))
    in_force, *_ = layers().look_up(SUPER_USERS)
    return SuperUsers(names, len(found) - len(names), _ORIGINS[in_force.source])
