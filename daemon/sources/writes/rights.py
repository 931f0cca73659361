"""Decide whose changes may be forwarded under the principal's own name.

The controllers trust the principal that the daemon names, even a super user: with
CLUSTER_ACTION, the daemon is as strong as any super user. So it must not name a principal that a
client of its own listeners could merely claim.

**Invariant:** a principal is forwarded only if it is listed, and if its caller proved it with a
client certificate, a signed token or a credential of the cluster. Each exception needs its own
setting. Unproven claims of the client, such as its client id, do not count.

Source: KIP-590; Kafka 4.3 EnvelopeUtils.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from authorizerd.acl.errors import NotReadyError
from authorizerd.actors.authorizer import Authentication, RequestContext
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.config.follow.settings import (
    FORWARD_PRINCIPALS,
    FORWARD_PRIVILEGED,
    FollowSettings,
    Privileged,
)
from authorizerd.daemon.sources.writes.requests import Denied, NotSent
from authorizerd.protocol.kafka.error_codes import ErrorCode

ANONYMOUS: Final = "User:ANONYMOUS"

_PROOFS: Final = frozenset(
    (
        Authentication.CERTIFICATE,
        Authentication.PLAIN,
        Authentication.SCRAM,
        Authentication.TOKEN,
    )
)


class ForwardingRights:
    """Decides whose changes are forwarded.

    Args:
        is_super_user: returns True if this daemon's ``super.users`` contains a principal.
    """

    def __init__(self, settings: FollowSettings, is_super_user: Callable[[str], bool]) -> None:
        self._listed: Final = settings.writes_forward_principals
        self._privileged: Final = settings.writes_forward_privileged
        self._is_super_user = is_super_user

    def find_obstacle(self, caller: RequestContext) -> str | None:
        """Return why the caller's changes are not forwarded, or None if they are."""
        principal = caller.principal
        if caller.host is None:
            return f"{principal} is not forwarded: its address is not known"
        if principal not in self._listed:
            return f"{principal} is not forwarded: it is not in {FORWARD_PRINCIPALS}"
        is_anonymous = principal == ANONYMOUS
        if caller.authentication not in _PROOFS and not is_anonymous:
            return f"{principal} is not forwarded: this daemon has not authenticated the caller"
        kinds = (
            (Privileged.ANONYMOUS, is_anonymous, "the principal of callers without authentication"),
            (
                Privileged.SUPER_USERS,
                self._is_super_user(principal),
                "a super user of this daemon",
            ),
            (
                Privileged.LOCAL_USERS,
                caller.authentication is Authentication.PLAIN,
                "a user of this daemon's own configuration",
            ),
        )
        for kind, applies, meaning in kinds:
            if applies and kind not in self._privileged:
                return (
                    f"{principal} is not forwarded: it is {meaning}, and {FORWARD_PRIVILEGED} does"
                    f" not have {kind}"
                )
        return None


def check_caller(
    caller: RequestContext,
    rights: ForwardingRights | None,
    may_alter: Callable[[RequestContext], bool],
) -> Denied | NotSent | None:
    """Return why the caller's change must not be sent now, or None if it may.

    Args:
        rights: who is forwarded; None if the daemon sends every change under its own name.
        may_alter: returns True if the caller may alter the cluster. Raises NotReadyError.
    """
    obstacle = None if rights is None else rights.find_obstacle(caller)
    try:
        if obstacle is None and not may_alter(caller):
            obstacle = f"{caller.principal} has lost the right to change ACLs"
    except NotReadyError as error:
        return NotSent(str(error), is_lost=False)
    if obstacle is None:
        return None
    return Denied(RejectedUpdateError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, obstacle))
