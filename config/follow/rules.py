"""Rules over several keys about following a cluster: which cluster, which servers, which writes.

**Invariant:** keys that contradict each other, and our own keys that would have no effect, are
errors. A principal is forwarded with more rights only if a key names its kind.

Source: Kafka 4.3 QuorumConfig, KafkaConfig.validateValues, KafkaRaftClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from authorizerd.config.follow.access import (
    read_broker_access,
    read_controller_access,
)
from authorizerd.config.follow.settings import (
    BOOTSTRAP_SERVERS,
    BROKERS_KEYS,
    CONTROLLER_NAMES,
    FOLLOW_KEYS,
    FOLLOW_SETTINGS,
    FORWARD_KEYS,
    FORWARD_PRINCIPALS,
    FORWARD_PRIVILEGED,
    POLL,
    QUORUM_KEYS,
    REQUEST_TIMEOUT,
    SOURCE,
    SOURCE_PREFIX,
    STALE_MAX,
    VOTERS,
    WRITE_TIMEOUT,
    WRITES,
    FollowSettings,
    Privileged,
    Server,
    SourceKind,
    Writes,
)
from authorizerd.config.key import Key
from authorizerd.config.key_values import KeyValues
from authorizerd.config.keys import listener_prefix
from authorizerd.config.sasl import SaslSettings
from authorizerd.config.values import SCRAM_MECHANISMS, SecurityProtocol, trim

FOLLOWER_ID: Final = 1_000_000
"""The default id of a daemon that follows a cluster: larger than that of any node."""

_ANONYMOUS: Final = "User:ANONYMOUS"
_UNFOLLOWED: Final = "this daemon owns its log and follows no cluster: remove this key, or set"
_NOT_BY_BROKERS: Final = (
    "only authorizerd.source=brokers uses this key: remove it, or set that source"
)


def read_source(keys: KeyValues) -> SourceKind:
    """Return where the ACLs come from.

    If the node itself is the only voter (a combined Kafka node), the daemon also owns the log.
    """
    source: SourceKind | None = keys.values[SOURCE]
    if source is not None:
        return source
    voters: tuple[Server, ...] = keys.values[VOTERS]
    others = {voter.node_id for voter in voters} - {keys.values["node.id"]}
    return SourceKind.QUORUM if keys.values[BOOTSTRAP_SERVERS] or others else SourceKind.LOG


def read_node_id(keys: KeyValues, source: SourceKind) -> int:
    """Return the node's id. A daemon that follows a cluster does not need one."""
    node_id: int | None = keys.values["node.id"]
    if node_id is not None:
        return node_id
    if source is SourceKind.LOG:
        reason = "required, and has no default: add a line node.id=VALUE"
        raise keys.refusal("node.id", reason)
    return FOLLOWER_ID


def read_follow(
    keys: KeyValues,
    source: SourceKind,
    protocols: Mapping[str, SecurityProtocol],
) -> FollowSettings | None:
    """Return how to follow the cluster, or None if the daemon owns its log.

    Args:
        protocols: the security protocol of each listener, the controllers' included.

    Raises:
        ConfigurationError: a key is missing, or keys contradict each other.
    """
    match source:
        case SourceKind.LOG:
            _refuse_set(keys, BROKERS_KEYS, f"{_UNFOLLOWED} authorizerd.source=brokers")
            remedy = f"{BOOTSTRAP_SERVERS} or authorizerd.source=brokers"
            others = [key for key in FOLLOW_KEYS[1:] if key not in BROKERS_KEYS]
            _refuse_set(keys, others, f"{_UNFOLLOWED} {remedy}")
            return None
        case SourceKind.QUORUM:
            _refuse_set(keys, BROKERS_KEYS, _NOT_BY_BROKERS)
            made = _read_quorum(keys, protocols)
        case SourceKind.BROKERS:
            made = _read_brokers(keys)
    values = {name: keys.values[key.name] for name, key in FOLLOW_SETTINGS.items()}
    return FollowSettings(kind=source, **values | made)


def find_unused_keys(keys: KeyValues, source: SourceKind) -> set[str]:
    """Return Kafka's keys for following a quorum that are set although none is followed."""
    if source is SourceKind.QUORUM:
        return set()
    names = {key.name for key in QUORUM_KEYS} & keys.properties.keys()
    return {name for name in names if trim(keys.properties[name].value)}


def _refuse_set(keys: KeyValues, refused: Iterable[Key], reason: str) -> None:
    for key in refused:
        if key.name in keys.properties:
            keys.refuse(key.name, reason)


def _read_quorum(keys: KeyValues, protocols: Mapping[str, SecurityProtocol]) -> dict[str, Any]:
    voters: tuple[Server, ...] = keys.values[VOTERS]
    servers = keys.values[BOOTSTRAP_SERVERS] or voters
    if not servers:
        reason = f"required to follow a quorum: add a line {BOOTSTRAP_SERVERS}=HOST:PORT"
        keys.refuse(BOOTSTRAP_SERVERS, reason)
    node_id = read_node_id(keys, SourceKind.QUORUM)
    if node_id in (voter.node_id for voter in voters):
        reason = (
            f"{node_id} is the id of a controller in {VOTERS}: choose an id that no node of the"
            " followed cluster has"
        )
        keys.refuse("node.id", reason)
    names: tuple[str, ...] | None = keys.values[CONTROLLER_NAMES]
    if not names:
        reason = (
            "required to follow a quorum: set the name of the controllers' listener, as in their"
            " own configuration"
        )
        raise keys.refusal(CONTROLLER_NAMES, reason)
    log_in, tls = read_controller_access(keys, names[0], protocols)
    return {
        "servers": servers,
        "log_in": log_in,
        "tls": tls,
        "request_timeout_ms": keys.values[REQUEST_TIMEOUT],
        "write_timeout_ms": keys.values[WRITE_TIMEOUT],
    }


def _read_brokers(keys: KeyValues) -> dict[str, Any]:
    key = f"{SOURCE_PREFIX}bootstrap.servers"
    servers: tuple[Server, ...] = keys.values[key]
    if not servers:
        reason = f"required with authorizerd.source=brokers: add a line {key}=HOST:PORT"
        keys.refuse(key, reason)
    poll_ms: int = keys.values[POLL]
    if keys.values[STALE_MAX] <= poll_ms:
        reason = f"expected more than {POLL} ({poll_ms}), found {keys.values[STALE_MAX]}"
        keys.refuse(STALE_MAX, reason)
    log_in, tls = read_broker_access(keys)
    write_timeout_ms = keys.values[f"{SOURCE_PREFIX}request.timeout.ms"]
    return {"servers": servers, "log_in": log_in, "tls": tls, "write_timeout_ms": write_timeout_ms}


def check_log_ins(
    keys: KeyValues, source: SourceKind, sasl_listeners: Mapping[str, SaslSettings]
) -> None:
    """Note a fault for each listener whose users cannot come from the cluster."""
    if source is not SourceKind.BROKERS:
        return
    for name, sasl in sasl_listeners.items():
        scram = [mechanism for mechanism in sasl.mechanisms if mechanism in SCRAM_MECHANISMS]
        if scram:
            own = f"{listener_prefix(name)}sasl.enabled.mechanisms"
            reason = (
                f"{name} enables {scram[0]}, but only ACLs follow from authorizerd.source=brokers,"
                " no SCRAM credentials: enable PLAIN or OAUTHBEARER, or use TLS client certificates"
            )
            keys.refuse(own if own in keys.properties else "sasl.enabled.mechanisms", reason)


def check_writes(
    keys: KeyValues, source: SourceKind, sasl_listeners: Mapping[str, SaslSettings]
) -> None:
    """Check what happens to changes of ACLs that a follower receives.

    Args:
        sasl_listeners: how clients log in to our listeners.

    Raises:
        ConfigurationError: a key is missing, or keys contradict each other.
    """
    if source is SourceKind.LOG:
        return
    writes: Writes = keys.values[WRITES]
    if writes is not Writes.FORWARD:
        reason = f"only {WRITES}=forward uses this key: remove it, or set {WRITES}=forward"
        _refuse_set(keys, FORWARD_KEYS, reason)
    elif source is not SourceKind.QUORUM:
        reason = "forward requires the source quorum, since only controllers accept forwarded"
        raise keys.refusal(WRITES, f"{reason} requests: use as-self or refuse")
    else:
        _check_forwarded(keys, sasl_listeners)


def _check_forwarded(keys: KeyValues, sasl_listeners: Mapping[str, SaslSettings]) -> None:
    forwarded: frozenset[str] = keys.values[FORWARD_PRINCIPALS]
    if not forwarded:
        reason = f"required with {WRITES}=forward: add a line {FORWARD_PRINCIPALS}=User:NAME"
        raise keys.refusal(FORWARD_PRINCIPALS, reason)
    local = {f"User:{user}" for sasl in sasl_listeners.values() for user in sasl.users.passwords}
    for kind, principals, what in (
        (Privileged.ANONYMOUS, {_ANONYMOUS}, "every client that has not logged in"),
        (Privileged.SUPER_USERS, keys.values["super.users"], "a super user"),
        (Privileged.LOCAL_USERS, local, "a PLAIN user of this file"),
    ):
        named = sorted(forwarded & principals)
        if named and kind not in keys.values[FORWARD_PRIVILEGED]:
            reason = f"{named[0]} is {what}: remove it, or add {kind} to {FORWARD_PRIVILEGED}"
            raise keys.refusal(FORWARD_PRINCIPALS, reason)
