"""The cluster that a daemon follows, as doctor sees it."""

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.steps import finish
from authorizerd.cli.doctor.certificates import examine_client_stores
from authorizerd.cli.doctor.command import EXIT_ERRORS, run_doctor
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.cli.doctor.followed import (
    NodeAnswer,
    ask_all,
    examine_copy,
    examine_settings,
    judge_answers,
    read_copied_cluster,
)
from authorizerd.config.configuration import parse
from authorizerd.config.follow.settings import FollowSettings, LogIn, Server, SourceKind, Writes
from authorizerd.config.oauth import TokenLogIn
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import KafkaCluster, addresses, answer, cluster_of, described
from tests.kafka_client.tls_cluster import new_settings
from tests.support.certificates import Authority, expired
from tests.support.copies import CLUSTER_ID, new_copy, open_copy
from tests.support.daemon_process import write_config
from tests.support.kio_codec import encode_response
from tests.support.scripted_quorum import ScriptedQuorum
from tools.example.log import write_log

FIRST, SECOND = addresses(2)
LOG_IN = LogIn(mechanism="PLAIN", username="us", password="hidden")
QUORUM = FollowSettings(kind=SourceKind.QUORUM, servers=(Server("c", 1),), log_in=LOG_IN)
BROKERS = replace(QUORUM, kind=SourceKind.BROKERS)
FENCED = ErrorCode.FENCED_LEADER_EPOCH
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
EXCESS = "warning: source: the daemon's user may do more in the cluster than it needs"
WORTH = "(with CLUSTER_ACTION, it reads topics and acts as anyone)"
REMOVE = "Do: remove the ACLs, of this user or of User:* (kafka-acls --remove --cluster --operation"
DOWN = NodeAnswer(address=SECOND, failure=ConnectionFailedError(f"{SECOND}: refused"))


def node(code: int = 0, cluster: str = "", *operations: Operation) -> NodeAnswer:
    return NodeAnswer(
        address=FIRST, error_code=code, cluster_id=cluster, operations=frozenset(operations)
    )


def shown(findings: list[Finding]) -> list[str]:
    lines = [each.line() for each in findings]
    assert "hidden" not in "".join(lines)
    return lines


@pytest.mark.parametrize(("follow", "answers", "expected", "lines"), [
    (QUORUM, [node()], None, ["ok: source: host0:9000: reached as us, CLUSTER_ACTION is allo"]),
    (BROKERS, [node(0, "id", Operation.DESCRIBE)], "id",
     ["ok: source: host0:9000: reached as us, DESCRIBE is allowed, cluster id."]),
    (replace(BROKERS, log_in=TokenLogIn(url=parse_document_url("file:///token"))),
     [node(0, "id")], "id", ["ok: source: host0:9000: reached by its token, DESCRIBE is allowed"]),
    (QUORUM, [node(DENIED)], None,
     ["error: source: host0:9000: User:us lacks CLUSTER_ACTION on the cluster. Do: grant"
      " it (kafka-acls --add --cluster --operation ClusterAction --allow-principal"
      " User:us); with this right, the user reads topics and acts as anyone"]),
    (BROKERS, [node(DENIED, "id")], None,
     ["error: source: host0:9000: User:us lacks DESCRIBE on the cluster. Do: grant it"]),
    (BROKERS, [node(ErrorCode.SECURITY_DISABLED)], None,
     ["error: source: host0:9000: the cluster has no authorizer"]),
    (QUORUM, [node(ErrorCode.INCONSISTENT_CLUSTER_ID)], "mine",
     ["error: source: host0:9000: belongs to another cluster, not to cluster mine"]),
    (BROKERS, [node(0, "other")], "mine",
     ["error: source: host0:9000: belongs to other, not to cluster mine"]),
    (BROKERS, [node(0, "a"), replace(node(0, "b"), address=SECOND)], None,
     ["ok: ", "ok: ", "error: source: the servers belong to different clusters: a, b."]),
    (QUORUM, [node(), DOWN], None, ["ok: ", "warning: source: host1:9001: refused. Do: check"]),
    (QUORUM, [DOWN], None, ["error: source: host1:9001: refused. Do: check the address"]),
    (replace(QUORUM, log_in=None), [node()], None,
     ["ok: ", "warning: source: CLUSTER_ACTION is allowed to everyone who reaches host0:9000"]),
    (QUORUM, [node(0, "id", Operation.CLUSTER_ACTION, Operation.DESCRIBE, Operation.ALTER)], None,
     ["ok: ", f"{EXCESS}: ALTER. {REMOVE} Alter --allow-principal User:us)."]),
    (BROKERS, [node(0, "id", Operation.DESCRIBE, Operation.CLUSTER_ACTION)], None,
     ["ok: ", f"{EXCESS}: CLUSTER_ACTION {WORTH}. {REMOVE} ClusterAction --allow-principal"]),
    (BROKERS, [node(0, "id", *SUPPORTED[ResourceType.CLUSTER])], None,
     ["ok: ",
      f"{EXCESS}: ALTER, ALTER_CONFIGS, CLUSTER_ACTION, CREATE, DESCRIBE_CONFIGS,"
      f" IDEMPOTENT_WRITE {WORTH}. Do: remove the user from super.users of the nodes, or"]),
    (replace(QUORUM, writes=Writes.AS_SELF),
     [node(0, "id", Operation.CLUSTER_ACTION, Operation.DESCRIBE, Operation.ALTER)], None,
     ["ok: "]),
    (replace(QUORUM, writes=Writes.AS_SELF), [node()], None,
     ["ok: ",
      "error: source: authorizerd.writes=as-self: User:us lacks ALTER on the cluster. Do:"
      " grant it (kafka-acls --add --cluster --operation Alter --allow-principal User:us"]),
    (replace(BROKERS, grants_enforce=True), [node(0, "id", Operation.DESCRIBE)], None,
     ["ok: ",
      "error: source: authorizerd.grants.enforce=true: User:us lacks ALTER on the cluster. Do:"]),
])  # fmt: skip
def test_answers_are_judged(
    follow: FollowSettings, answers: list[NodeAnswer], expected: str | None, lines: list[str]
) -> None:
    found = shown([*judge_answers(follow, answers, expected)])
    assert len(found) == len(lines)
    for line, beginning in zip(found, lines, strict=True):
        assert line.startswith(beginning)


MINIMAL = "node.id=7\nlog.dirs=/d\ncontroller.listener.names=CONTROLLER\n"
SASL = """\
controller.quorum.bootstrap.servers=c1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.mechanism.controller.protocol=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="us" \
password="hidden";
"""
FORWARD = "authorizerd.writes=forward\nauthorizerd.writes.forward.principals=User:a\n"
OF_FILE = "super.users=User:a\nallow.everyone.if.no.acl.found=false\n"


@pytest.mark.parametrize(("text", "levels", "said"), [
    (OF_FILE, [Level.OK, Level.WARNING], "super.users=User:a, allow.everyone.if.no.acl.found="),
    ("super.users=", [Level.WARNING, Level.WARNING], "Not set: allow.everyone.if.no.acl.found"),
    (OF_FILE, [Level.OK, Level.WARNING], "the password for authentication is sent unencrypted"),
    ("super.users=\nallow.everyone.if.no.acl.found=false\n" + FORWARD,
     [Level.OK, Level.WARNING, Level.WARNING],
     "the daemon's credential is as powerful as that of a super user"),
    (OF_FILE + FORWARD + "authorizerd.writes.forward.privileged=super-users",
     [Level.OK, Level.WARNING, Level.WARNING, Level.WARNING],
     "authorizerd.writes.forward.privileged has super-users"),
])  # fmt: skip
def test_risks_of_the_settings_are_named(text: str, levels: list[Level], said: str) -> None:
    configuration = parse(MINIMAL + SASL + text, source="f")
    assert configuration.follow is not None
    found = [*examine_settings(configuration, configuration.follow)]
    assert [each.level for each in found] == levels
    assert said in " ".join(shown(found))


def test_directory_must_have_a_copy_or_nothing(tmp_path: Path) -> None:
    [found] = examine_copy(tmp_path / "missing", QUORUM)
    assert found.line().endswith("missing: no copy of the cluster yet.")
    write_log(tmp_path / "own")
    [found] = examine_copy(tmp_path / "own", QUORUM)
    assert found.level is Level.ERROR
    assert "has a log of its own" in found.text
    open_copy(tmp_path / "copy").close()
    [found] = examine_copy(tmp_path / "copy", QUORUM)
    assert found.line().endswith(f"a copy of cluster {CLUSTER_ID}.")
    [found] = examine_copy(tmp_path / "copy", BROKERS)
    assert found.level is Level.ERROR
    copy = new_copy(tmp_path / "unnamed")
    copy.open()
    copy.adopt_cluster("")
    copy.close()
    [found] = examine_copy(tmp_path / "unnamed", QUORUM)
    assert found.level is Level.WARNING
    assert "a copy of a cluster whose id is not known" in found.text
    assert "set authorizerd.source.cluster.id" in found.line()
    [found] = examine_copy(tmp_path / "unnamed", replace(QUORUM, cluster_id="named"))
    assert found.line().endswith("a copy, which the daemon will tie to named.")
    write_mark(tmp_path / "damaged", CopyMark(""), DISK)
    [found] = examine_copy(tmp_path / "damaged", QUORUM)
    assert found.level is Level.ERROR


def describe(code: int = 0, bits: int = 0) -> object:
    cluster = cluster_of(1, error=code)
    cluster.cluster_authorized_operations = bits
    return cluster


LISTED = described()
NO_LOG_IN = answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())


@pytest.mark.parametrize(("answers", "code", "cluster", "said"), [
    ([describe(0, 1 << Operation.DESCRIBE), LISTED], 0, "cluster", ""),
    ([describe(), answer(error_code=DENIED, error_message="no", resources=())], DENIED, "cluster",
     ""),
    ([describe(ErrorCode.MISMATCHED_ENDPOINT_TYPE)], 0, "", "found a controller's"),
    ([describe(DENIED)], 0, "", "found a controller's"),
    ([describe(ErrorCode.UNKNOWN_SERVER_ERROR)], 0, "", "UNKNOWN_SERVER_ERROR"),
])  # fmt: skip
async def test_brokers_are_asked_for_the_right_and_the_cluster(
    nursery: trio.Nursery, answers: list[object], code: int, cluster: str, said: str
) -> None:
    nodes = KafkaCluster(nursery)
    asked = nodes.add(FIRST, NO_LOG_IN, *answers)
    servers = tuple(Server(each.host, each.port) for each in (FIRST, SECOND))
    follow = FollowSettings(kind=SourceKind.BROKERS, servers=servers)
    with trio.fail_after(5):
        first, second = await ask_all(follow, None, nodes.connect)
    assert (first.error_code, first.cluster_id) == (code, cluster)
    assert said in str(first.failure or "")
    assert (first.failure is None) == (said == "")
    assert second.address == Address(SECOND.host, SECOND.port)
    assert "refused" in str(second.failure)
    assert asked.closed == 1
    assert not {ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS} & {each.api_key for each in asked.asked}
    if cluster and not code:
        assert first.operations == {Operation.DESCRIBE}


def test_unreachable_cluster_is_an_error_and_nothing_is_created(tmp_path: Path) -> None:
    """The directory of the copy need not exist before the first start."""
    config = write_config(
        tmp_path,
        tmp_path / "copy",
        {
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
            "controller.listener.names": "CONTROLLER",
        },
    )
    out = io.StringIO()
    assert run_doctor(["--config", str(config)], out) == EXIT_ERRORS
    lines = out.getvalue().splitlines()
    [line] = [each for each in lines if each.startswith("error: ")]
    assert line.startswith("error: source: 127.0.0.1:1: ")
    assert any("copy: does not exist yet, and can be created" in each for each in lines)
    assert not (tmp_path / "copy").exists()


def test_copy_of_a_cluster_is_not_an_own_log(tmp_path: Path) -> None:
    open_copy(tmp_path / "copy").close()
    out = io.StringIO()
    config = write_config(tmp_path, tmp_path / "copy")
    assert run_doctor(["--config", str(config)], out) == EXIT_ERRORS
    assert "a copy of a cluster's metadata, which no daemon may own" in out.getvalue()


async def test_controllers_need_not_describe_their_cluster(nursery: trio.Nursery) -> None:
    """They do so only for those who may ALTER it. A Fetch shows the right, and another cluster."""
    quorum = ScriptedQuorum(nursery, size=2)
    quorum.elect(1)
    servers = tuple(Server(each.host, each.port) for each in quorum.addresses)
    follow = FollowSettings(kind=SourceKind.QUORUM, servers=servers)
    denied = b"".join(
        finish(encode_response(ApiKey.DESCRIBE_CLUSTER, 2, cluster_of(-1, error=DENIED)))
    )
    quorum.controllers[1].spoil(ApiKey.DESCRIBE_CLUSTER, denied)
    with trio.fail_after(5):
        first, second = await ask_all(follow, quorum.cluster_id, quorum.connect)
        others = await ask_all(follow, "other", quorum.connect)
    assert (first.failure, first.cluster_id, first.error_code) == (None, "", FENCED)
    assert second.cluster_id == quorum.cluster_id
    assert {each.error_code for each in others} == {ErrorCode.INCONSISTENT_CLUSTER_ID}
    assert [each.level for each in judge_answers(follow, [first])] == [Level.OK, Level.WARNING]


@pytest.mark.parametrize(("change", "levels"), [
    (lambda keystore: keystore, [Level.OK]),
    (lambda keystore: keystore.chmod(0o644), [Level.ERROR, Level.OK]),
    (lambda keystore: keystore.unlink(), [Level.ERROR]),
])  # fmt: skip
def test_stores_for_connections_are_examined(
    tmp_path: Path, change: Callable[[Path], object], levels: list[Level]
) -> None:
    authority = Authority(tmp_path)
    keystore = authority.issue("client", not_after=datetime.now(UTC) + timedelta(days=90))
    keystore.chmod(0o600)
    change(keystore)
    stores = f"ssl.keystore.location={keystore}\nssl.truststore.location={authority.ca_file}\n"
    tls = parse(f"{MINIMAL}{SASL.replace('SASL_PLAINTEXT', 'SSL')}{stores}", source="f").follow
    assert tls is not None
    assert tls.tls is not None
    assert [each.level for each in examine_client_stores(tls.tls, datetime.now(UTC))] == levels


def test_expired_client_certificate_is_an_error(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    keystore = authority.issue("client", not_after=expired())
    keystore.chmod(0o600)
    tls = new_settings(keystore_location=keystore, truststore_location=authority.ca_file)
    [found] = examine_client_stores(tls, datetime.now(UTC))
    assert found.level is Level.ERROR
    assert "connections to the cluster: certificate" in found.text


def test_copy_without_an_id_expects_no_certain_cluster(tmp_path: Path) -> None:
    """Controllers may not tell it."""
    copy = new_copy(tmp_path / "copy")
    copy.open()
    copy.adopt_cluster("")
    assert read_copied_cluster(tmp_path / "copy") is None
    copy.adopt_cluster("named")
    copy.close()
    assert read_copied_cluster(tmp_path / "copy") == "named"
    assert read_copied_cluster(tmp_path / "missing") is None
