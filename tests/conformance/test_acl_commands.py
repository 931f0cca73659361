"""kafka-acls and ``authorizerd acls`` print the same bytes.

Each tool has its own daemon and log, so neither sees the other's changes.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.acl.as_of import AsOf
from authorizerd.cli.acls.command import run_acl_command
from authorizerd.cli.acls.runner import AclReader, Terminal
from tests.conformance.acl_command_cases import ADD, LIST, REFUSED, REMOVE, STORIES, Case
from tests.conformance.acl_command_stories import (
    Printed,
    command,
    comparable,
    recorded,
    run_on_terminal,
)
from tests.kafka_rig.properties import client_properties, write_properties
from tests.kafka_rig.rig import Program, Rig
from tests.support.daemon_process import new_log, running

RECORDED = Path(__file__).parents[1] / "data" / "kafka-acls"
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_bob="bob-secret";'
)
OURS = (sys.executable, "-m", "authorizerd.cli.main", "acls")

PICKED = (
    *(ADD[number] for number in (3, 6, 9, 13, 16, 18, 21)),
    *(LIST[number] for number in (1, 3, 12, 21, 0)),
)
"""A few of each kind, because each command starts a JVM: prefixed, denied, partly refused; unusual
names and principals."""


def kafka_acls(rig: Rig) -> tuple[str, ...]:
    """Return the command of kafka-acls, with UTF-8 arguments and output."""
    options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ("env", "LC_ALL=C.UTF-8", *rig.command(Program.ACLS.main_class, options=options))


def printed_by(
    tool: Sequence[str], folder: Path, cases: Sequence[Case], *, user: str | None = None
) -> list[Printed]:
    """Return the output of each command on a daemon without ACLs; no ``user`` may do anything."""
    config = {
        "listeners": LISTENERS,
        "super.users": "User:ANONYMOUS;User:admin",
        "authorizerd.kafka.release": "4.3",  # that of the broker
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    }
    folder.mkdir(exist_ok=True)
    with running(folder, new_log(folder), config) as daemon:
        listener = "PLAINTEXT" if user is None else "SASL_PLAINTEXT"
        connection = ["--bootstrap-server", daemon.ready["listeners"][listener]]
        if user is not None:
            path = folder / "client.properties"
            write_properties(path, client_properties(user, f"{user}-secret"))
            connection += ["--command-config", str(path)]
        words = [command(case, "", connection)[1:] for case in cases]
        found = [
            run_on_terminal([*tool, *each], case.answers)
            for case, each in zip(cases, words, strict=True)
        ]
        code, errors = daemon.stop()
        assert code == 0, errors
        return found


@pytest.mark.parametrize(
    ("cases", "user"),
    [
        pytest.param(PICKED, None, id="add and list"),
        pytest.param(REMOVE[:8], "admin", id="remove, logged in"),
        pytest.param(REFUSED, "bob", id="refused, logged in"),
    ],
)
def test_both_tools_print_the_same(
    rig: Rig, tmp_path: Path, cases: Sequence[Case], user: str | None
) -> None:
    """Each command has the same exit code and bytes, also when it asks questions."""
    theirs = printed_by(kafka_acls(rig), tmp_path / "theirs", cases, user=user)
    ours = printed_by(OURS, tmp_path / "ours", cases, user=user)
    for case, their, our in zip(cases, theirs, ours, strict=True):
        assert comparable(our) == comparable(their), case.arguments
    assert len({printed.out for printed in theirs}) > len(cases) / 2


def test_user_without_rights_is_refused(tmp_path: Path) -> None:
    """The test above only compares the refusals; this one checks that they occur."""
    for printed in printed_by(OURS, tmp_path, REFUSED, user="bob"):
        assert printed.code == 1
        assert "ClusterAuthorizationException: " in printed.out


def no_log(path: Path, as_of: AsOf | None) -> AclReader:
    raise AssertionError(f"{path} was opened")


def printed_here(words: Sequence[str], answers: str) -> Printed:
    """Return the output of ``authorizerd acls``, run in this process."""
    out, error = io.StringIO(), io.StringIO()
    terminal = Terminal(answers=io.StringIO(answers), out=out, error=error)
    code = run_acl_command(words, terminal, open_log=no_log)
    return Printed(out=out.getvalue(), error=error.getvalue(), code=code)


@pytest.mark.parametrize("name", STORIES)
def test_our_daemon_answers_as_a_broker_did(name: str, tmp_path: Path) -> None:
    """Every story has the output that kafka-acls printed for a real broker."""
    cases = STORIES[name]
    expected = recorded((RECORDED / f"{name}.txt").read_text(encoding="utf-8"))
    client = tmp_path / "client.properties"
    client.write_text("security.protocol=PLAINTEXT\n")
    settings = {"super.users": "User:ANONYMOUS", "authorizerd.kafka.release": "4.3"}
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        connection = ("--bootstrap-server", address, "--command-config", str(client))
        for case, printed in zip(cases, expected, strict=True):
            ours = printed_here(command(case, "", connection)[1:], case.answers)
            assert comparable(ours) == comparable(printed), case.arguments
        assert daemon.metric("authorizerd_acls") == 0
