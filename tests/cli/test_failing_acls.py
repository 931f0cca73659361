"""ACLs whose principal has no colon, as Kafka before 3.9 stored them: what each command says."""

import json
from pathlib import Path

import pytest

from authorizerd.acl.by_resource_type import authorize_by_resource_type
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl, AclAdded, Operation, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.cli.doctor.finding import Level
from authorizerd.cli.doctor.log import examine_log
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import decode_plan
from tests.support.acls import acl, snapshot_of
from tests.support.daemon_process import run, running
from tests.support.log_files import read_acls, write_log
from tests.support.printed import run_main
from tests.support.requests import evaluation

ORDERS, OTHER, DENIED = (acl("User:alice", topic=topic) for topic in ("orders", "other", "denied"))
ALLOW, DENY = acl("qqqqest", topic="orders"), acl("wwwwest", topic="denied", deny=True)
ACLS = (ALLOW, ORDERS, OTHER, DENY, DENIED)
REMOVE_ALLOW = (
    "authorizerd acls --bootstrap-server HOST:PORT --remove --force --allow-principal qqqqest"
    " --allow-host '*' --operation Read --topic orders --resource-pattern-type literal"
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    added = [AclAdded(number.to_bytes(16, "big"), each) for number, each in enumerate(ACLS, 1)]
    write_log(tmp_path / "log", added)
    return tmp_path / "log"


def answer_of(words: str, *, code: int = 0) -> str:
    return run_main(*words.split(), code=code).out


def test_daemon_denies_names_and_removes(tmp_path: Path, log_dir: Path) -> None:
    """The command that the daemon's log gives removes the ACL. Then the others decide."""
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS;User:root") as daemon:
        for topic, user, allowed in (
            ("orders", "alice", False),
            ("denied", "alice", False),
            ("other", "alice", True),
            ("orders", "root", True),
        ):
            answer = daemon.evaluate(evaluation(user, topic=topic, host="10.0.0.1")).json
            assert answer["decision"] is allowed, topic
            if not allowed:
                assert answer["context"]["rule"].startswith("UnjudgeableAcl(acl=StandardAcl[")
        assert daemon.metric("authorizerd_acls_failing") == 2
        server = daemon.ready["listeners"]["PLAINTEXT"]
        removed = run(*REMOVE_ALLOW.replace("HOST:PORT", server).replace("'", "").split()[1:])
        assert (removed.returncode, removed.stdout) == (0, "")
        assert "principal 'qqqqest' has no colon" in removed.stderr
        assert daemon.metric("authorizerd_acls_failing") == 1
        assert daemon.evaluate(evaluation("alice", topic="orders", host="10.0.0.1")).json[
            "decision"
        ]
        code, errors = daemon.stop()
    assert code == 0
    for each in (ALLOW, DENY):
        assert f"Kafka fails on {each}, because its principal has no colon" in errors
    assert f"remove it: {REMOVE_ALLOW}" in errors
    assert set(read_acls(log_dir).values()) == set(ACLS) - {ALLOW}


def test_doctor_names_them_with_the_remedy(log_dir: Path) -> None:
    found = examine_log(log_dir, 1, is_running=False)
    warnings = [each for each in found if each.level is Level.WARNING]
    assert {each.text.partition(", because")[0] for each in warnings} == {
        f"Kafka fails on {each}" for each in (ALLOW, DENY)
    }
    assert f"remove it: {REMOVE_ALLOW}" in [each.advice for each in warnings]


def test_nobody_but_super_users_may_do_anything_there(log_dir: Path) -> None:
    source = f"--log-dir {log_dir} --super-users User:root"
    for topic in ("orders", "denied"):
        document = json.loads(answer_of(f"who-can READ --topic {topic} --json {source}"))
        assert [each["principal"] for each in document["principals"]] == ["User:root"]
        answer_of(f"can User:alice --topic {topic} {source}", code=3)
    document = json.loads(answer_of(f"what-can User:alice --json {source}"))
    assert {each["pattern"]["resource_name"] for each in document["resources"]} == {"other"}


def test_explanation_and_policy_test_name_the_acl(tmp_path: Path, log_dir: Path) -> None:
    """An ALLOW that Kafka fails on denies. No near miss promises access."""
    asked = f"--principal User:alice --operation READ --topic orders --log-dir {log_dir}"
    document = json.loads(answer_of(f"explain {asked} --json", code=3))
    assert document["rule"] == f"UnjudgeableAcl(acl={ALLOW})"
    assert document["smallest_change"]["kafka_acls"] == REMOVE_ALLOW
    assert document["smallest_change"]["change"] == "remove"
    assert [each["kind"] for each in document["near_misses"]] == ["single_denial"]
    policy = tmp_path / "tests.yaml"
    policy.write_text("tests:\n  - alice may READ topic orders\n")
    out = answer_of(f"test {policy} --log-dir {log_dir}", code=3)
    assert f"because:  {ALLOW}, on which Kafka fails: its principal has no colon" in out
    assert f"change:   {REMOVE_ALLOW}" in out


def test_plan_deletes_them_last_and_cannot_create_them(tmp_path: Path, log_dir: Path) -> None:
    desired, out = tmp_path / "desired.txt", tmp_path / "plan.json"
    desired.write_text(format_acls([ORDERS, OTHER]))
    answer_of(f"acls plan {desired} --log-dir {log_dir} --out {out}", code=10)
    changes = decode_plan(out.read_bytes()).changes
    assert (changes.created, changes.delete_allow) == ((), (DENIED,))
    assert set(changes.delete_deny) == {ALLOW, DENY}
    desired.write_text(format_acls([ORDERS, acl("new", topic="orders")]))
    assert "no colon" in run_main("acls", "plan", desired, "--log-dir", log_dir, code=1).err


@pytest.mark.parametrize(("held", "allowed"), [
    ((ORDERS,), True),
    ((ORDERS, acl("est", topic="elsewhere")), False),
    ((ORDERS, acl("est", topic="elsewhere", host="10.0.0.9")), True),
    ((ORDERS, acl("est", group="elsewhere")), True),
])  # fmt: skip
def test_no_resource_of_a_type_is_allowed_from_a_host_of_such_an_acl(
    held: tuple[Acl, ...], allowed: bool
) -> None:
    def ask(snapshot: AclSnapshot) -> bool:
        fields = ("User:alice", "10.0.0.1", int(Operation.READ), int(ResourceType.TOPIC))
        return finish(authorize_by_resource_type(snapshot, AuthorizerSettings(), *fields))

    assert ask(snapshot_of(*held)) is allowed
