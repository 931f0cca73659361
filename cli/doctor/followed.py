"""Check how the daemon follows a cluster: its servers, log-in, rights, and what does not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Operation
from authorizerd.cli.doctor.certificates import examine_client_stores
from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.cli.doctor.followed_nodes import NodeAnswer, ask_nodes, list_cluster_ids
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import HttpEndpoint, is_loopback
from authorizerd.config.follow import (
    CLUSTER_ID,
    FORWARD_PRIVILEGED,
    WRITES,
    FollowSettings,
    SourceKind,
    Writes,
)
from authorizerd.config.values import PLAIN
from authorizerd.daemon.sources.remedies import (
    excess_rights,
    missing_alter,
    missing_right,
    remedy,
)
from authorizerd.kafka_client.errors import UnusableNodeError
from authorizerd.metadata.copy_directory import read_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.protocol.kafka.error_codes import ErrorCode

_CHECK: Final = "source"
_FILE_KEYS: Final = ("super.users", "allow.everyone.if.no.acl.found")
_NEEDED: Final = {
    SourceKind.QUORUM: Operation.CLUSTER_ACTION,
    SourceKind.BROKERS: Operation.DESCRIBE,
}
_REACH: Final = "check the address, that the node runs, and that no firewall is between"


def examine_followed(configuration: Configuration) -> Iterator[Finding]:
    """Examine the cluster that the daemon follows; yield nothing if it owns its log."""
    follow = configuration.follow
    if follow is None:
        return
    servers = ", ".join(f"{each.host}:{each.port}" for each in follow.servers)
    yield ok(_CHECK, f"{follow.kind} at {servers}, authorizerd.writes={follow.writes}")
    yield from examine_settings(configuration, follow)
    if follow.tls is not None:
        yield from examine_client_stores(follow.tls, datetime.now(UTC))
    log_dir = Path(configuration.metadata_log_dir)
    expected = follow.cluster_id or read_copied_cluster(log_dir)
    answers = ask_nodes(follow, expected)
    yield from judge_answers(follow, answers, expected)
    yield from examine_copy(log_dir, follow)


def examine_settings(configuration: Configuration, follow: FollowSettings) -> Iterator[Finding]:
    """Examine what the settings alone show: risks, and keys that do not follow the cluster."""
    yield _examine_file_keys(configuration)
    if follow.writes is Writes.FORWARD:
        text = (
            f"{WRITES}=forward: the controllers believe the daemon who has asked, so the daemon's"
            " log-in is as powerful as that of a super user"
        )
        advice = "protect this machine and its configuration like those of a controller"
        yield warning(_CHECK, text, advice)
        if follow.writes_forward_privileged:
            kinds = ", ".join(sorted(follow.writes_forward_privileged))
            text = f"{FORWARD_PRIVILEGED} has {kinds}: one here is one in the cluster, too"
            yield warning(_CHECK, text, "remove the kinds that need not change ACLs")
    log_in = follow.log_in
    remote = [
        each for each in follow.servers if not is_loopback(HttpEndpoint(host=each.host, port=0))
    ]
    if log_in is not None and log_in.mechanism == PLAIN and follow.tls is None and remote:
        text = "the password for the log-in is sent unencrypted (SASL_PLAINTEXT with PLAIN)"
        yield warning(_CHECK, text, "use a listener with SASL_SSL, or SCRAM")


def _examine_file_keys(configuration: Configuration) -> Finding:
    values = configuration.file_values
    text = f"{' and '.join(_FILE_KEYS)} do not follow the cluster, but are set in this file"
    missing = [key for key in _FILE_KEYS if key not in values]
    if not missing:
        shown = ", ".join(f"{key}={values[key]}" for key in _FILE_KEYS)
        return ok(_CHECK, f"{text}: {shown}")
    advice = "copy them from a broker's server.properties (authorizerd import-config shows them)"
    return warning(_CHECK, f"{text}. Not set: {', '.join(missing)}", advice)


def judge_answers(
    follow: FollowSettings, answers: Sequence[NodeAnswer], expected: str | None = None
) -> Iterator[Finding]:
    """Judge what the nodes have answered; ``expected`` is the cluster's id, if it is known."""
    reached = [each for each in answers if each.failure is None]
    for answer in answers:
        if answer.failure is None:
            yield _judge_right(follow, answer, expected)
        else:
            yield _report_failure(follow, answer, is_only=not reached)
    clusters = list_cluster_ids(answers)
    if len(clusters) > 1:
        text = f"the servers belong to different clusters: {', '.join(clusters)}"
        yield error(_CHECK, text, "name the servers of one cluster")
    if reached:
        yield from _judge_operations(follow, reached[0])


def _report_failure(follow: FollowSettings, answer: NodeAnswer, *, is_only: bool) -> Finding:
    failure, advice = answer.failure, answer.advice
    if isinstance(failure, UnusableNodeError):
        advice = remedy(follow.kind, failure.cause)
    text = str(failure).removesuffix(f"; {advice}")  # such a text ends with the remedy
    return (error if is_only else warning)(_CHECK, text, advice or _REACH)


def _judge_right(follow: FollowSettings, answer: NodeAnswer, expected: str | None) -> Finding:
    user = follow.username
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        text, _, advice = missing_right(follow.kind, user).partition(": ")
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
    who = f"as {user}"
    if user is None:
        who = "by its certificate" if _has_certificate(follow) else "without a log-in"
    place = f", cluster {answer.cluster_id}" if answer.cluster_id else ""
    text = f"{answer.address}: reached {who}, {_NEEDED[follow.kind].name} is allowed{place}"
    return ok(_CHECK, text)


def _judge_operations(follow: FollowSettings, answer: NodeAnswer) -> Iterator[Finding]:
    """Compare the rights in the cluster with those that the daemon needs."""
    is_allowed = answer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if follow.log_in is None and not _has_certificate(follow) and is_allowed:
        text = f"{_NEEDED[follow.kind].name} is allowed to everyone who reaches {answer.address}"
        yield warning(_CHECK, text, "let clients log in there (SASL_SSL), and grant rights by user")
    needed = {_NEEDED[follow.kind]}
    if follow.writes is Writes.AS_SELF:
        needed.add(Operation.ALTER)
        if Operation.ALTER not in answer.operations:
            text, _, advice = missing_alter(follow.username).partition(": ")
            yield error(_CHECK, f"{WRITES}=as-self: {text}", advice)
    harmless = {Operation.DESCRIBE}
    if more := answer.operations - needed - harmless:
        names = ", ".join(sorted(each.name for each in more))
        text = f"the daemon's user may do more in the cluster than it needs: {names}"
        if Operation.CLUSTER_ACTION in more:
            text += " (with CLUSTER_ACTION, it reads topics and acts as anybody)"
        yield warning(_CHECK, text, excess_rights(follow.username, answer.operations, more))


def _has_certificate(follow: FollowSettings) -> bool:
    return follow.tls is not None and follow.tls.keystore is not None


def read_copied_cluster(log_dir: Path) -> str | None:
    """Return the id of the cluster whose copy is in the directory, None if it is not known."""
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
            f"{log_dir}: a copy of a cluster whose id is not known, so nothing proves that it is of"
            " the followed cluster"
        )
        yield warning(_CHECK, text, f"set {CLUSTER_ID} (kafka-cluster cluster-id shows the id)")
