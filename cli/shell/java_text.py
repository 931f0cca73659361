"""Texts as Kafka's shell prints them: Java's ``toString`` of Kafka's classes, without secrets.

**Invariant:** no text contains a salt or a key of a SCRAM credential. A broker's config is shown
only if its name is one that Kafka documents as not secret: a log contains passwords in plain text,
and
    custom plugins read configs of any name.

Source: Kafka 4.3 PartitionRegistration, BrokerRegistration, ControllerRegistration, VersionRange,
Endpoint, Uuid, DelegationTokenDataNode, ScramCredentialDataNode, ProvenanceNode,
ClientQuotasImageNode, DynamicBrokerConfig and MetadataNodeRedactionCriteria.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from authorizerd.acl.as_of import format_time
from authorizerd.cli.shell.tree import sort_names
from authorizerd.image.changes import Partition, ScramCredential
from authorizerd.image.features import name_metadata_version
from authorizerd.protocol.records import foreign

REDACTED: Final = "[redacted]"

_ID_SIZE: Final = 16
_NO_ID: Final = bytes(_ID_SIZE)
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)
_SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_RECOVERY_STATES: Final = {0: "RECOVERED", 1: "RECOVERING"}
_LEVEL_MAX: Final = 32_767
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTA_TYPES: Final = {"client-id": "clientId", "ip": "ip", "user": "user"}
_SIGN: Final = 1 << 63


def format_uuid(id: bytes) -> str:
    """Return an id of 16 bytes as Kafka prints it."""
    return urlsafe_b64encode(id)[:22].decode("ascii")


def parse_uuid(text: str) -> bytes | None:
    """Return the 16 bytes of an id, or None if the text is not one.

    As in Kafka, the unused bits of the last character are ignored.
    """
    return urlsafe_b64decode(f"{text[:22]}==") if _UUID.fullmatch(text) else None


def describe_partition(partition: Partition) -> str:
    states = partition.leader_recovery_state
    return (
        f"PartitionRegistration(replicas={_listed(partition.replicas)}, "
        f"directories={_listed(_directories(partition))}, isr={_listed(partition.isr)}, "
        f"removingReplicas={_listed(partition.removing_replicas)}, "
        f"addingReplicas={_listed(partition.adding_replicas)}, "
        f"elr={_listed(partition.eligible_leader_replicas)}, "
        f"lastKnownElr={_listed(partition.last_known_eligible)}, leader={partition.leader}, "
        f"leaderRecoveryState={_RECOVERY_STATES.get(states, states)}, "
        f"leaderEpoch={partition.leader_epoch}, partitionEpoch={partition.partition_epoch})"
    )


def _directories(partition: Partition) -> list[str]:
    """Return the replicas' directories. Without them, each is the all-zero id."""
    encoded = partition.directories
    if not encoded.strip(b"\0"):
        encoded = _NO_ID * len(partition.replicas)
    return [
        format_uuid(encoded[start : start + _ID_SIZE]) for start in range(0, len(encoded), _ID_SIZE)
    ]


def describe_broker(broker: foreign.BrokerRegistered) -> str:
    rack = "Optional.empty" if broker.rack is None else f"Optional[{broker.rack}]"
    return (
        f"BrokerRegistration(id={broker.id}, epoch={broker.epoch}, "
        f"incarnationId={format_uuid(broker.incarnation_id)}, "
        f"listeners=[{_endpoints(broker.endpoints)}], "
        f"supportedFeatures={{{_features(broker.features)}}}, rack={rack}, "
        f"fenced={_flag(broker.is_fenced)}, "
        f"inControlledShutdown={_flag(broker.is_shutting_down)}, "
        f"isMigratingZkBroker={_flag(broker.is_migrating)}, "
        f"directories={_uuids(broker.directories)}, "
        f"cordonedDirectories={_uuids(broker.cordoned or ())})"
    )


def describe_controller(controller: foreign.ControllerRegistered) -> str:
    return (
        f"ControllerRegistration(id={controller.id}, "
        f"incarnationId={format_uuid(controller.incarnation_id)}, "
        f"zkMigrationReady={_flag(controller.is_migration_ready)}, "
        f"listeners=[{_endpoints(controller.endpoints)}], "
        f"supportedFeatures={{{_features(controller.features)}}})"
    )


def describe_credential(credential: ScramCredential) -> str:
    """Return a SCRAM credential without its secrets, in the form of Kafka's logs."""
    return (
        f"ScramCredentialData(salt={REDACTED}, storedKey={REDACTED}, serverKey={REDACTED}, "
        f"iterations={credential.iterations})"
    )


def describe_token(token: foreign.TokenAdded) -> str:
    """Return a delegation token. Records do not contain its secret."""
    return (
        f"DelegationTokenDatatokenId={token.id}(owner={token.owner}"
        f"(tokenRequester={token.requester}(renewers={' '.join(token.renewers)}, "
        f"issueTimestamp={token.issue_time_ms}, maxTimestamp={token.max_time_ms}), "
        f"expiryTimestamp={token.expiration_time_ms}"
    )


def describe_quota_entity(entity: Iterable[tuple[str, str | None]]) -> str:
    """Return the name of the folder of a quota's entity.

    Kafka's shell gives all defaults the same empty name, and fails when it prints one.
    """
    parts = [(_QUOTA_TYPES.get(kind, kind), _quota_name(name)) for kind, name in entity]
    return "_".join(f"{kind}({name})" for kind, name in sorted(parts))


def _quota_name(name: str | None) -> str:
    if name is None:
        return "<default>"
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def describe_double(value: float) -> str:
    """Return a number as Java prints a double."""
    magnitude = abs(value)
    if magnitude != 0 and not 1e-3 <= magnitude < 1e7 and magnitude < float("inf"):
        digits, _, exponent = f"{value!r}".partition("e")
        mantissa, shift = _normalize(digits, int(exponent or 0))
        return f"{mantissa}E{shift}"
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))


def _normalize(digits: str, exponent: int) -> tuple[str, int]:
    """Return a decimal number with one digit before the decimal point, and its exponent."""
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.removeprefix("-").partition(".")
    joined = whole + fraction
    significant = joined.lstrip("0")
    exponent += len(whole) - 1 - (len(joined) - len(significant))
    significant = significant.rstrip("0")
    return f"{sign}{significant[0]}.{significant[1:] or '0'}", exponent


def describe_metadata_version(level: int | None) -> str:
    if level is None:
        return "Optional.empty"
    return f"Optional[{name_metadata_version(level)}]"


def describe_provenance(offset: int, epoch: int, time_ms: int) -> str:
    """Return the offset, the epoch and the time of the last batch.

    Kafka also shows times beyond the range of Python's dates.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"offset {offset}, epoch {epoch}, time {format_time(time_ms)}"
    fraction = f".{moment.microsecond // 1000:03}".rstrip("0").rstrip(".")
    return f"offset {offset}, epoch {epoch}, time {moment:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def _endpoints(endpoints: Sequence[foreign.NodeEndpoint]) -> str:
    by_name = {endpoint.name: endpoint for endpoint in endpoints}
    return ", ".join(_endpoint(by_name[name]) for name in sort_names(by_name))


def _endpoint(endpoint: foreign.NodeEndpoint) -> str:
    protocol = _SECURITY_PROTOCOLS.get(endpoint.security_protocol, "null")
    return (
        f"Endpoint(listenerName='{endpoint.name}', securityProtocol={protocol}, "
        f"host='{endpoint.host}', port={endpoint.port})"
    )


def _features(features: Sequence[foreign.FeatureLevels]) -> str:
    levels = {feature.name: _levels(feature.lowest, feature.highest) for feature in features}
    return ", ".join(f"{name}: {levels[name]}" for name in sort_names(levels))


def _levels(lowest: int, highest: int) -> str:
    if lowest == highest:
        return str(lowest)
    return f"{lowest}+" if highest == _LEVEL_MAX else f"{lowest}-{highest}"


def _uuids(ids: Iterable[bytes]) -> str:
    return _listed(map(format_uuid, sorted(ids, key=_order)))


def _order(id: bytes) -> tuple[int, int]:
    """Return a key that sorts ids as Java does: as two signed numbers."""
    first, second = int.from_bytes(id[:8], "big"), int.from_bytes(id[8:], "big")
    return first ^ _SIGN, second ^ _SIGN


def _listed(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _flag(value: bool) -> str:
    return "true" if value else "false"


BROKER_TYPES: Final = frozenset((4, 8, 0))
"""ConfigResource.Type of BROKER and BROKER_LOGGER, and of resources that are unknown."""

_SECRET: Final = re.compile(
    r"passw|secret|credential|jaas|token|(^|\.)(ssl\.)?(keystore|private|api|access)\.?key", re.I
)
_SHOWN: Final = re.compile(
    r"(listener\.name\.[^.]+\.)?(ssl\.(keystore|truststore)\.(location|type)|"
    r"ssl\.(protocol|provider|cipher\.suites|enabled\.protocols|client\.auth|"
    r"keymanager\.algorithm|trustmanager\.algorithm|endpoint\.identification\.algorithm|"
    r"engine\.factory\.class|principal\.mapping\.rules)|sasl\.enabled\.mechanisms|"
    r"sasl\.mechanism\.inter\.broker\.protocol|max\.connections(\.creation\.rate)?|"
    r"principal\.builder\.class)"
    r"|log\.[a-z.]+|num\.[a-z.]+|background\.threads|compression\.[a-z.]+|message\.max\.bytes"
    r"|min\.insync\.replicas|unclean\.leader\.election\.enable|advertised\.listeners|listeners"
    r"|listener\.security\.protocol\.map|max\.connections(\.[a-z.]+)?|connection[a-z.]*"
    r"|(leader|follower|alter\.log\.dirs)\.(replication|io)[a-z.]*|metric\.reporters"
    r"|auto\.create\.topics\.enable|default\.replication\.factor|producer\.id\.[a-z.]+"
    r"|transaction\.[a-z.]+|remote\.(log|fetch)\.(index|manager|reader|max|copier)[a-z.]*"
    r"|allow\.everyone\.if\.no\.acl\.found|super\.users|group\.[a-z.]+|share\.[a-z.]+"
    r"|cordoned\.log\.dirs|replica\.[a-z.]+|socket\.[a-z.]+|org\.apache\.kafka\.[A-Za-z0-9.$]+"
    r"|kafka\.[A-Za-z0-9.$]+|root"
)


def is_shown(key: str, *, is_broker: bool) -> bool:
    """Return True if the value of a config may be shown.

    Args:
        is_broker: True if it belongs to a broker, or to an unknown kind of resource. Configs of
            topics, groups and client metrics are not secret, unless their name says otherwise.
    """
    if _SECRET.search(key):
        return False
    return not is_broker or _SHOWN.fullmatch(key) is not None
