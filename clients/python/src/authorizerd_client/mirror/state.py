"""Read a daemon's answer at ``/v1/state``: its settings, and which ACLs it has."""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.releases import Release, ReleaseRules, rules_for
from authorizerd_client.errors import ProtocolError

STATE_BYTES_MAX: Final = 16 * 1024 * 1024


class _Answer(msgspec.Struct, frozen=True):
    version: str
    releases: tuple[Release, ...]
    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool
    valid_ms: int | None


class DaemonState(msgspec.Struct, frozen=True):
    """A daemon's state.

    Attributes:
        version: identifies the set of its ACLs; see ``acl.snapshot.AclSnapshot.version``.
        valid_seconds: how long it may decide without further contact; None without a limit.
    """

    version: bytes
    settings: AuthorizerSettings
    rules: ReleaseRules
    valid_seconds: float | None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_state(body: bytes) -> DaemonState:
    """Return the state in an answer.

    Raises:
        ProtocolError: it is not one that this mirror understands, for example because a later
            release of Kafka decides there.
    """
    try:
        answer = _decode(body)
        version = bytes.fromhex(answer.version)
        rules = rules_for(answer.releases)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"/v1/state: {error}: a mirror of another version?") from None
    settings = AuthorizerSettings(answer.super_users, answer.allow_everyone_if_no_acl_found)
    valid = None if answer.valid_ms is None else answer.valid_ms / 1000
    return DaemonState(version, settings, rules, valid)
