"""Choose how a daemon that follows a cluster handles changes, by ``authorizerd.writes``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.published import View
from authorizerd.config.follow.settings import FollowSettings, SourceKind, Writes
from authorizerd.daemon.sources.remedies import missing_alter
from authorizerd.daemon.sources.source import Destination
from authorizerd.daemon.sources.writes.connections import Connections
from authorizerd.daemon.sources.writes.delivery import Means
from authorizerd.daemon.sources.writes.forwarded import ForwardedUpdates
from authorizerd.daemon.sources.writes.refused import RefusedUpdates
from authorizerd.daemon.sources.writes.rights import ForwardingRights, check_caller
from authorizerd.daemon.sources.writes.submission import Submission
from authorizerd.kafka_client.connection import OpenNode


def new_updates(
    settings: FollowSettings,
    *,
    destination: Destination,
    open_node: OpenNode,
    snapshot: View[AclSnapshot | None],
    is_super_user: Callable[[str], bool],
    may_alter: Callable[[RequestContext], bool],
    requests_max: int,
    timeout_ms: Callable[[], int],
    applied_everywhere: Callable[[], Awaitable[None]],
) -> RefusedUpdates | ForwardedUpdates:
    """Return what handles the changes that clients send.

    Args:
        is_super_user: returns True if ``super.users`` of this daemon has a principal.
        may_alter: see ``check_caller``.
        requests_max, timeout_ms: see ``ForwardedUpdates``.
        applied_everywhere: see ``Means``.
    """
    if settings.writes is Writes.REFUSE:
        return RefusedUpdates(settings)
    forwards = settings.writes is Writes.FORWARD
    rights = ForwardingRights(settings, is_super_user) if forwards else None
    submission = Submission(
        Connections(open_node),
        carries_caller=forwards,
        to_controllers=settings.kind is SourceKind.QUORUM,
        check_caller=lambda caller: check_caller(caller, rights, may_alter),
    )
    means = Means(
        destination=destination,
        submission=submission,
        snapshot=snapshot,
        request_timeout_ms=settings.write_timeout_ms,
        no_right="" if forwards else missing_alter(settings.username),
        applied_everywhere=applied_everywhere,
    )
    return ForwardedUpdates(
        means,
        rights=rights,
        requests_max=requests_max,
        timeout_ms=timeout_ms,
    )
