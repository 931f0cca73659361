"""The doctor's checks of the callers of decision ports."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.cli.doctor.access import examine_callers
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import parse_values
from tests.support.acls import acl
from tests.support.log_files import added, write_log

BRIDGE = "Service:bridge"
FORWARDS = "holds CLUSTER_ACTION in the cluster"
USER = "may be a user of Kafka"
ASK = "CLUSTER_ACTION in an ACL was the right to use the decision ports"
READ = "DESCRIBE in an ACL was the right to use the decision ports"


def examine(folder: Path, *acls: Acl, holder: str | None, **callers: str) -> list[str]:
    """Return the texts of ``examine_findings``."""
    return [each.text for each in examine_findings(folder, *acls, holder=holder, **callers)]


def examine_findings(folder: Path, *acls: Acl, holder: str | None, **callers: str) -> list[Finding]:
    """Return the warnings about the holder of a token, and about the principals in the keys."""
    some = (acl("User:other", "READ", topic="t"), *acls)
    write_log(folder / "log", [added(number, each) for number, each in enumerate(some, 1)])
    values = {"node.id": "1", "log.dirs": str(folder / "log"), "super.users": "User:root"}
    values |= {f"authorizerd.callers.{right}": text for right, text in callers.items()}
    if holder is not None:
        digest = sha256(b"secret").hexdigest()
        (folder / "tokens").write_text(f"a {digest} {holder}\nroot {digest} User:root\n")
        values["authorizerd.tokens.file"] = str(folder / "tokens")
    found = list(examine_callers(parse_values(values, source="test")))
    return [each for each in found if each.level is Level.WARNING]


def on_cluster(principal: str, operation: str, *, host: str = "*", deny: bool = False) -> Acl:
    return acl(principal, operation, host=host, deny=deny, cluster=True)


@pytest.mark.parametrize(
    ("holder", "acls", "said"),
    [
        (BRIDGE, [], []),
        ("User:bridge", [], [USER]),
        (BRIDGE, [on_cluster(BRIDGE, "CLUSTER_ACTION")], [FORWARDS, ASK]),
        (BRIDGE, [on_cluster(BRIDGE, "CLUSTER_ACTION", host="10.0.0.1")], [FORWARDS, ASK]),
        (BRIDGE, [on_cluster("User:*", "ALL")], [FORWARDS, READ, ASK]),
        ("User:a", [on_cluster("User:a", "DESCRIBE")], [USER, READ]),
        ("User:a", [on_cluster("User:a", "ALTER")], [USER, READ]),
        (
            BRIDGE,
            [on_cluster(BRIDGE, "ALL"), on_cluster("User:*", "CLUSTER_ACTION", deny=True)],
            [READ],
        ),
        ("User:root", [on_cluster("User:*", "ALL")], []),
        (BRIDGE, [acl(BRIDGE, "ALL", topic="t")], []),
    ],
)
def test_rights_of_a_token_holder_in_kafka(
    holder: str, acls: list[Acl], said: list[str], tmp_path: Path
) -> None:
    found = examine(tmp_path, *acls, holder=holder)
    assert [any(text in each for each in found) for text in said] == [True] * len(said)
    assert len(found) == len(said)


def test_principals_in_the_keys_are_examined_like_token_holders(tmp_path: Path) -> None:
    acls = [acl("User:app", "READ", topic="t"), on_cluster("User:app", "CLUSTER_ACTION")]
    found = examine(tmp_path, *acls, holder=BRIDGE, ask="User:app;User:client", search="User:app")
    assert len(found) == 1
    assert found[0].startswith("User:app: holds CLUSTER_ACTION")


def test_upgrader_learns_which_keys_must_list_a_caller(tmp_path: Path) -> None:
    forwards = on_cluster(BRIDGE, "CLUSTER_ACTION")
    [_, text] = examine(tmp_path, forwards, holder=BRIDGE, search=BRIDGE)
    past = "authorizerd.callers.read for questions about the past"
    assert text.endswith(f"; now authorizerd.callers.ask must list it, and {past}")
    [_, text] = examine(tmp_path, forwards, holder=BRIDGE, search=BRIDGE, read=BRIDGE)
    assert text.endswith("; now authorizerd.callers.ask must list it")


def test_remedy_keeps_the_old_version_working(tmp_path: Path) -> None:
    """Doctor runs before the upgrade: the old daemon still needs the ACL."""
    assert "once no daemon of version 1.0 needs it" in find_advice(tmp_path, BRIDGE)
    assert "authorizerd token" not in find_advice(tmp_path, BRIDGE)
    assert "authorizerd token" in find_advice(tmp_path, "User:bridge")


def find_advice(folder: Path, principal: str) -> str:
    """Return what to do about a caller that holds CLUSTER_ACTION."""
    forwards = on_cluster(principal, "CLUSTER_ACTION")
    [found, _] = examine_findings(folder, forwards, holder=principal)
    return found.advice


def test_trusted_callers_are_not_examined(tmp_path: Path) -> None:
    assert examine(tmp_path, on_cluster("User:*", "ALL"), holder=None, ask="User:a") == []


def test_unreadable_log_is_another_checks_finding(tmp_path: Path) -> None:
    assert examine(tmp_path, holder="User:a") == [
        "User:a: may be a user of Kafka, so what its ACLs allow is at risk with it"
    ]
    (tmp_path / "log" / "__cluster_metadata-0").rename(tmp_path / "moved")
    values = {
        "node.id": "1",
        "log.dirs": str(tmp_path / "log"),
        "authorizerd.tokens.file": str(tmp_path / "tokens"),
    }
    levels = [each.level for each in examine_callers(parse_values(values, source="test"))]
    assert levels.count(Level.WARNING) == 2
