"""Check how the daemon follows a cluster: servers, authentication, rights, keys not taken from it.

**Invariant:** requests to the nodes change nothing in the cluster, and no finding contains the
daemon's password.

Source: Kafka 4.3 ControllerApis, KafkaApis: both check the right before anything else in a Fetch or
DescribeAcls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from authorizerd.acl.model import AclFilter, Operation, PatternType, ResourceType
from authorizerd.cli.doctor.certificates import examine_client_stores
from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import HttpEndpoint, is_loopback
from authorizerd.config.follow.settings import (
    CLUSTER_ID,
    ENFORCE,
    FORWARD_PRIVILEGED,
    WRITES,
    FollowSettings,
    Server,
    SourceKind,
    Writes,
)
from authorizerd.config.values import OAUTHBEARER, PLAIN
from authorizerd.daemon.sources import remedies
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.kafka_client import errors
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Node, message_call
from authorizerd.kafka_client.quorum_calls import fetch_call
from authorizerd.kafka_client.transport import OpenStream, open_tcp
from authorizerd.metadata.copy_directory import read_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchPosition
from authorizerd.protocol.kafka.requests import DescribeClusterRequest
from authorizerd.protocol.kafka.responses import DescribeClusterAnswer

SECONDS_MAX: Final = 15.0

_TIMEOUT_MS: Final = int(SECONDS_MAX * 1000)
_MISPLACED: Final = (
    ErrorCode.MISMATCHED_ENDPOINT_TYPE,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
)
_ENDPOINT_TYPES: Final = {SourceKind.BROKERS: 1, SourceKind.QUORUM: 2}
_BEGINNING: Final = FetchPosition(offset=0, last_epoch=0, leader_epoch=0)
_NO_ACL: Final = AclFilter(
    resource_type=ResourceType.CLUSTER,
    resource_name="authorizerd-doctor",
    pattern_type=PatternType.LITERAL,
)
"""Matches nothing, because ACLs call the cluster kafka-cluster. The right is checked anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """The answers of a node.

    ``failure`` is the reason if it could not be reached or did not answer, and ``advice`` is the
    remedy, if known. ``error_code`` belongs to the request that needs the daemon's right.
    ``cluster_id`` is empty if it is not known. ``operations`` are the known operations of the
    daemon's principal on the cluster; ALTER is always known.
    """

    address: Address
    failure: errors.ConnectionFailedError | None = None
    advice: str = ""
    error_code: int = 0
    cluster_id: str = ""
    operations: frozenset[Operation] = frozenset()


async def ask_all(
    settings: FollowSettings, cluster_id: str | None, open_tcp: OpenStream = open_tcp
) -> list[NodeAnswer]:
    """Ask all servers that the configuration names, at the same time; return their answers."""
    opener = NodeOpener(settings, open_tcp)
    answers: dict[Server, NodeAnswer] = {}

    async def ask(server: Server) -> None:
        answers[server] = await _ask_in_time(opener, settings, server, cluster_id)

    async with trio.open_nursery() as nursery:
        for server in settings.servers:
            nursery.start_soon(ask, server)
    return [answers[server] for server in settings.servers]


async def _ask_in_time(
    opener: NodeOpener, settings: FollowSettings, server: Server, cluster_id: str | None
) -> NodeAnswer:
    address = Address(server.host, server.port)
    failure = errors.ConnectionFailedError(f"{address}: no answer within {SECONDS_MAX:g} s")
    with trio.move_on_after(SECONDS_MAX):
        try:
            node = await opener.open(server.host, server.port)
            try:
                return await _ask(node, settings, cluster_id)
            finally:
                await node.aclose()
        except errors.ConnectionFailedError as error:
            failure = error
        except errors.RequestFailedError as error:
            failure = errors.ConnectionFailedError(f"{address}: {error}")
    return NodeAnswer(address=address, failure=failure)


async def _ask(node: Node, settings: FollowSettings, cluster_id: str | None) -> NodeAnswer:
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=_ENDPOINT_TYPES[settings.kind]
    )
    describe = message_call(ApiKey.DESCRIBE_CLUSTER, asked, DescribeClusterAnswer)
    cluster = await node.request(describe, _TIMEOUT_MS)
    code = int(cluster.error_code)
    # Controllers describe their cluster only to principals with ALTER; brokers describe it to
    # everyone.
    is_hidden = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if code and not (is_hidden and settings.kind is SourceKind.QUORUM):
        wrong = remedies.WRONG_NODES[settings.kind] if code in _MISPLACED else (ApiError(code), "")
        failure = errors.ConnectionFailedError(f"{node.address}: {wrong[0]}")
        return NodeAnswer(address=node.address, failure=failure, advice=wrong[1])
    # A negative number means that the operations were not computed.
    bits = 0 if is_hidden else cluster.cluster_authorized_operations
    return NodeAnswer(
        address=node.address,
        error_code=await _try_right(node, settings.kind, cluster_id),
        cluster_id="" if is_hidden else cluster.cluster_id,
        operations=frozenset(
            operation for operation in Operation if bits > 0 and bits >> operation & 1
        ),
    )


async def _try_right(node: Node, kind: SourceKind, cluster_id: str | None) -> int:
    """Return the error code of the request that following needs."""
    if kind is SourceKind.QUORUM:
        call = fetch_call(cluster_id=cluster_id, position=_BEGINNING, max_wait_ms=0, max_bytes=1)
        answer = await node.request(call, _TIMEOUT_MS)
        return answer.error_code
    listing = Call(
        api_key=ApiKey.DESCRIBE_ACLS,
        encode=lambda version: encode_describe_acls_request(version, _NO_ACL),
        decode=decode_describe_acls_response,
    )
    found = await node.request(listing, _TIMEOUT_MS)
    return int(found.code) if isinstance(found, ApiError) else ErrorCode.NONE


_CHECK: Final = "source"
_FILE_KEYS: Final = ("super.users", "allow.everyone.if.no.acl.found")
_NEEDED: Final = {
    SourceKind.QUORUM: Operation.CLUSTER_ACTION,
    SourceKind.BROKERS: Operation.DESCRIBE,
}
_SENT: Final = {PLAIN: "the password", OAUTHBEARER: "the token"}
_REACH: Final = "check the address, that the node runs, and that no firewall is in between"


def examine_followed(configuration: Configuration) -> Iterator[Finding]:
    """Examine the cluster that the daemon follows; yield nothing if it owns its log."""
    follow = configuration.follow
    if follow is None:
        return
    servers = ", ".join(f"{server.host}:{server.port}" for server in follow.servers)
    yield ok(_CHECK, f"{follow.kind} at {servers}, authorizerd.writes={follow.writes}")
    yield from examine_settings(configuration, follow)
    if follow.tls is not None:
        yield from examine_client_stores(follow.tls, datetime.now(UTC))
    log_dir = Path(configuration.metadata_log_dir)
    expected = follow.cluster_id or read_copied_cluster(log_dir)
    answers = trio.run(ask_all, follow, expected)
    yield from judge_answers(follow, answers, expected)
    yield from examine_copy(log_dir, follow)


def examine_settings(configuration: Configuration, follow: FollowSettings) -> Iterator[Finding]:
    """Examine the settings alone: risks, and keys that are not taken from the cluster."""
    yield _examine_file_keys(configuration)
    if follow.writes is Writes.FORWARD:
        text = (
            f"{WRITES}=forward: the controllers trust the daemon to name the caller, so the "
            "daemon's credential is as powerful as that of a super user"
        )
        advice = "protect this machine and its configuration like those of a controller"
        yield warning(_CHECK, text, advice)
        if follow.writes_forward_privileged:
            kinds = ", ".join(sorted(follow.writes_forward_privileged))
            text = (
                f"{FORWARD_PRIVILEGED} has {kinds}: such callers have the same name in the cluster"
            )
            yield warning(_CHECK, text, "remove the kinds that need not change ACLs")
    log_in = follow.log_in
    remote = [
        server
        for server in follow.servers
        if not is_loopback(HttpEndpoint(host=server.host, port=0))
    ]
    sent = None if log_in is None else _SENT.get(log_in.mechanism)
    if log_in is not None and sent is not None and follow.tls is None and remote:
        way = f"SASL_PLAINTEXT with {log_in.mechanism}"
        text = f"{sent} for authentication is sent unencrypted ({way})"
        yield warning(_CHECK, text, "use a listener with SASL_SSL, or SCRAM")


def _examine_file_keys(configuration: Configuration) -> Finding:
    values = configuration.file_values
    text = f"{' and '.join(_FILE_KEYS)} are taken from this file, not from the cluster"
    missing = [key for key in _FILE_KEYS if key not in values]
    if not missing:
        shown = ", ".join(f"{key}={values[key]}" for key in _FILE_KEYS)
        return ok(_CHECK, f"{text}: {shown}")
    advice = "copy them from a broker's server.properties (authorizerd import-config shows them)"
    return warning(_CHECK, f"{text}. Not set: {', '.join(missing)}", advice)


def judge_answers(
    follow: FollowSettings, answers: Sequence[NodeAnswer], expected: str | None = None
) -> Iterator[Finding]:
    """Judge the nodes' answers; ``expected`` is the cluster's id, if known."""
    reached = [each for each in answers if each.failure is None]
    for answer in answers:
        if answer.failure is None:
            yield _judge_right(follow, answer, expected)
        else:
            yield _report_failure(follow, answer, is_only=not reached)
    clusters = [*dict.fromkeys(each.cluster_id for each in answers if each.cluster_id)]
    if len(clusters) > 1:
        text = f"the servers belong to different clusters: {', '.join(clusters)}"
        yield error(_CHECK, text, "name the servers of one cluster")
    if reached:
        yield from _judge_operations(follow, reached[0])


def _report_failure(follow: FollowSettings, answer: NodeAnswer, *, is_only: bool) -> Finding:
    failure, advice = answer.failure, answer.advice
    if isinstance(failure, errors.UnusableNodeError):
        advice = remedies.remedy(follow.kind, failure.cause)
    text = str(failure).removesuffix(f"; {advice}")  # the text ends with the remedy
    return (error if is_only else warning)(_CHECK, text, advice or _REACH)


def _judge_right(follow: FollowSettings, answer: NodeAnswer, expected: str | None) -> Finding:
    user = follow.username
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        text, _, advice = remedies.missing_right(follow.kind, user).partition(": ")
        return error(_CHECK, f"{answer.address}: {text}", advice)
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        text = f"{answer.address}: the cluster has no authorizer, so it has no ACLs"
        return error(_CHECK, text, "set authorizer.class.name on its nodes")
    is_other = expected is not None and answer.cluster_id not in ("", expected)
    if is_other or answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        found = f" to {answer.cluster_id}" if answer.cluster_id else " to another cluster"
        text = f"{answer.address}: belongs{found}, not to cluster {expected}"
        advice = (
            f"correct the servers or {CLUSTER_ID}; to follow the other cluster, run authorizerd"
            " reset-copy"
        )
        return error(_CHECK, text, advice)
    if user is not None:
        who = f"as {user}"
    elif follow.log_in is not None:
        who = "by its token"
    else:
        who = "by its certificate" if _has_certificate(follow) else "without authentication"
    place = f", cluster {answer.cluster_id}" if answer.cluster_id else ""
    text = f"{answer.address}: reached {who}, {_NEEDED[follow.kind].name} is allowed{place}"
    return ok(_CHECK, text)


def _judge_operations(follow: FollowSettings, answer: NodeAnswer) -> Iterator[Finding]:
    is_allowed = answer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if follow.log_in is None and not _has_certificate(follow) and is_allowed:
        text = f"{_NEEDED[follow.kind].name} is allowed to everyone who reaches {answer.address}"
        yield warning(_CHECK, text, "let clients log in there (SASL_SSL), and grant rights by user")
    needed = {_NEEDED[follow.kind]}
    is_as_self = follow.writes is Writes.AS_SELF
    if is_as_self or follow.grants_enforce:
        needed.add(Operation.ALTER)
        if Operation.ALTER not in answer.operations:
            text, _, advice = remedies.missing_alter(follow.username).partition(": ")
            key = f"{WRITES}=as-self" if is_as_self else f"{ENFORCE}=true"
            yield error(_CHECK, f"{key}: {text}", advice)
    harmless = {Operation.DESCRIBE}
    if more := answer.operations - needed - harmless:
        names = ", ".join(sorted(each.name for each in more))
        text = f"the daemon's user may do more in the cluster than it needs: {names}"
        if Operation.CLUSTER_ACTION in more:
            text += " (with CLUSTER_ACTION, it reads topics and acts as anyone)"
        yield warning(
            _CHECK, text, remedies.excess_rights(follow.username, answer.operations, more)
        )


def _has_certificate(follow: FollowSettings) -> bool:
    return follow.tls is not None and follow.tls.keystore is not None


def read_copied_cluster(log_dir: Path) -> str | None:
    try:
        properties = None if read_mark(log_dir) is None else read_meta_properties(log_dir)
    except MetadataLogError:
        return None  # examine_copy reports it
    return (properties and properties.cluster_id) or None


def examine_copy(log_dir: Path, follow: FollowSettings) -> Iterator[Finding]:
    """Examine the directory: it must have a copy of a cluster's metadata, or nothing."""
    try:
        mark, properties = read_mark(log_dir), read_meta_properties(log_dir)
    except MetadataLogError as fault:
        yield error(_CHECK, str(fault), "name another directory in log.dirs")
        return
    is_log = properties is not None or (log_dir / METADATA_TOPIC_DIRECTORY).exists()
    if mark is None and is_log:
        text = f"{log_dir}: has a log of its own, which a daemon that follows a cluster never uses"
        yield error(_CHECK, text, "name an empty directory in log.dirs, and keep this one")
    elif mark is None or properties is None:
        yield ok(_CHECK, f"{log_dir}: no copy of the cluster yet")
    elif mark.source != follow.kind:
        text = f"{log_dir}: a copy for authorizerd.source={mark.source}, not {follow.kind}"
        yield error(_CHECK, text, "name another directory, or run authorizerd reset-copy")
    elif properties.cluster_id:
        yield ok(_CHECK, f"{log_dir}: a copy of cluster {properties.cluster_id}")
    elif follow.cluster_id is not None:
        yield ok(_CHECK, f"{log_dir}: a copy, which the daemon will tie to {follow.cluster_id}")
    else:
        text = (
            f"{log_dir}: a copy of a cluster whose id is not known, so nothing proves that it "
            "belongs to the followed cluster"
        )
        yield warning(_CHECK, text, f"set {CLUSTER_ID} (kafka-cluster cluster-id shows the id)")
