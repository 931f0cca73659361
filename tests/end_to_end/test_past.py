"""A real daemon, asked about the past of a real broker's log, answers as if it had stopped then."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_files
from authorizerd.metadata.past.past_log import PastLog
from tests.support.daemon_process import DaemonProcess, running

OFFSETS_APART = 71
QUESTIONS = 40


@pytest.fixture(scope="module")
def states(real_log_dir: Path) -> list[AclSnapshot]:
    """Return the state after each batch of the log."""
    snapshot, found = EMPTY_SNAPSHOT, []
    for timed in PastLog(find_files(real_log_dir)).read(0):
        changes = timed.changes
        snapshot = at_offset(apply_changes(snapshot, changes.changes), changes.last_offset)
        if changes.is_end:
            found.append(snapshot)
    return found


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "workers"])
def daemon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, real_log_dir: Path
) -> Iterator[DaemonProcess]:
    """Run a daemon on a copy of the log, which it continues."""
    folder = tmp_path_factory.mktemp("past")
    shutil.copytree(
        real_log_dir / METADATA_TOPIC_DIRECTORY, folder / "log" / METADATA_TOPIC_DIRECTORY
    )
    config = {"authorizerd.workers": str(request.param)}
    with running(folder, folder / "log", config, super_users="User:admin") as daemon:
        yield daemon
        code, errors = daemon.stop()
        assert code == 0, errors


def questions_about(snapshots: list[AclSnapshot], random: Random) -> list[tuple[str, str, str]]:
    """Return principals, operations and topics that ACLs of the log name."""
    acls = [
        acl
        for snapshot in snapshots[:: len(snapshots) // 9]
        for acl in snapshot.acls.values()
        if acl.resource_type == ResourceType.TOPIC and acl.operation != Operation.ALL
    ]
    return [
        (acl.principal, Operation(acl.operation).name, acl.resource_name)
        for acl in random.sample(acls, QUESTIONS)
        if acl.principal.startswith("User:") and acl.principal != "User:*"
    ]


def test_answers_at_any_offset_are_those_of_a_daemon_stopped_there(
    daemon: DaemonProcess, states: list[AclSnapshot]
) -> None:
    random = Random(7)
    asked = questions_about(states, random)
    assert len(asked) > QUESTIONS // 2
    evaluations = [
        {
            "subject": {"type": "user", "id": principal.removeprefix("User:")},
            "action": {"name": operation},
            "resource": {"type": "topic", "id": topic},
        }
        for principal, operation, topic in asked
    ]
    answered = set()
    for offset in [*range(0, states[-1].offset + 1, OFFSETS_APART), states[-1].offset]:
        state = next(each for each in reversed(states) if each.offset <= offset)
        answer = daemon.evaluate(
            {"context": {"as_of": offset}, "evaluations": evaluations},
            path="/access/v1/evaluations",
        )
        found = answer.json["evaluations"]
        assert {each["context"]["as_of"]["offset"] for each in found} == {state.offset}
        expected = [
            authorize(state, AuthorizerSettings(), principal, None, Operation[operation], 2, topic)
            for principal, operation, topic in asked
        ]
        assert [each["decision"] for each in found] == expected
        answered.update(expected)
    assert answered == {True, False}
