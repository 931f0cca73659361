"""Notes of grants on a real cluster: Kafka keeps them like any ACL, and they decide nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.text.kafka_acls import entry_arguments
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.management.formats.listing import read
from tests.conformance.acl_history import read_checkpoint, read_history
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import FIRST_BROKER, FIRST_CONTROLLER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.oracle import kafka_answers
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tests.support.printed import run_main

READ = acl("User:alice", "READ", topic="orders")
ALICE = "--principal User:alice --operation read --topic orders"
SETTINGS = ClusterSettings(
    controllers=1,
    controller_more={"metadata.log.max.record.bytes.between.snapshots": "2000"},
)


@pytest.fixture
def small(rig: Rig, newest_rig: Rig, tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(rig, tmp_path / "kafka", SETTINGS) as cluster:
        yield cluster


def listed(cluster: Cluster) -> set[Acl]:
    done = cluster.run(Program.ACLS, "--list")
    assert done.exit_code == 0, done
    return set(read(done.stdout).acls)


def run(cluster: Cluster, command: str, words: str, code: int = 0) -> str:
    place = ("--bootstrap-server", cluster.bootstrap_servers)
    config = ("--command-config", cluster.client_config(ADMIN))
    return run_main("acls", command, *words.split(), *place, *config, code=code).out


def test_kafka_keeps_grants(small: Cluster, newest_rig: Rig, tmp_path: Path) -> None:
    made = run(small, "grant", f"{ALICE} --for 2h --reason INC-123")
    assert made.endswith(f"by User:{ADMIN}: INC-123\n")
    run(small, "grant", f"{ALICE} --for 3h --reason again", code=4)
    # Stock kafka-acls lists, adds and deletes notes.
    small.wait_for(lambda: READ in listed(small), "the broker lists the grant")
    [grant] = read_grants(listed(small)).grants
    later = lengthen(grant)
    done = small.run(Program.ACLS, "--add", *entry_arguments(make_grant_note(later)))
    assert done.exit_code == 0, done
    small.wait_for(lambda: len(read_grants(listed(small)).grants) == 2, "the broker lists both")
    # The ACL and its note are in one batch.
    history = read_history(small, tmp_path)
    offsets = {each: offset for offset, each in history.added.values()}
    first, last = sorted((offsets[READ], offsets[make_grant_note(grant)]))
    assert not any(first <= end < last for end in history.batch_ends)
    # They are in a snapshot, and survive a restart with a newer release.
    for number in range(30):
        small.create(acl("User:other", topic=f"t-{number}"))
    notes = {make_grant_note(grant), make_grant_note(later)}

    def has_snapshot() -> bool:
        checkpoints = small.members[FIRST_CONTROLLER].metadata_dir.glob("*.checkpoint")
        newest = max(checkpoints, default=None)
        return newest is not None and {READ, *notes} <= {*read_checkpoint(small.rig, newest)}

    small.wait_for(has_snapshot, "a snapshot")
    small.restart_with(FIRST_CONTROLLER, newest_rig)
    small.restart_with(FIRST_BROKER, newest_rig)
    small.wait_for(lambda: {READ, *notes} <= listed(small), "the broker lists all again")
    removed = entry_arguments(make_grant_note(later))
    assert small.run(Program.ACLS, "--remove", "--force", *removed).exit_code == 0
    small.wait_for(lambda: not notes <= listed(small), "the note is gone")
    run(small, "grant", f"{ALICE} --permanent")
    small.wait_for(lambda: not any(map(is_note, listed(small))), "no note is left")
    assert READ in listed(small)


def lengthen(grant: Grant) -> Grant:
    return Grant(
        id=grant.id, acl=grant.acl, begin_ms=grant.begin_ms, end_ms=grant.end_ms + 60_000,
        author=grant.author, reason="longer",
    )  # fmt: skip


@pytest.mark.parametrize("release", ["rig", "newest_rig"])
def test_notes_change_no_decision_of_kafka(request: pytest.FixtureRequest, release: str) -> None:
    """Also where a resource without an ACL is open to everyone."""
    waiting = Grant(
        id="1", acl=READ, begin_ms=time.time_ns() // 1_000_000 + 10**6,
        end_ms=time.time_ns() // 1_000_000 + 10**7, author="User:ops", reason="INC-123",
        is_waiting=True,
    )  # fmt: skip
    notes = [make_grant_note(waiting)]
    other = acl("User:bob", "WRITE", topic="payments")
    requests = [
        [principal, host, operation, kind, name]
        for principal in ("User:alice", "User:bob", "User:note", "Authorizerd:other")
        for host in ("127.0.0.1", "10.0.0.7")
        for kind, name, operations in (
            ("TOPIC", "orders", ("READ", "WRITE", "DESCRIBE")),
            ("TOPIC", "payments", ("READ", "WRITE", "DESCRIBE")),
            ("DELEGATION_TOKEN", "token", ("DESCRIBE",)),
            ("CLUSTER", "kafka-cluster", ("ALTER", "DESCRIBE")),
        )
        for operation in operations
    ]
    cases = [
        {
            "acls": [list(row_of(each)) for each in acls],
            "requests": requests,
            "filters": [],
            "byResourceType": [],
            "allowEveryone": allow_everyone,
        }
        for allow_everyone in (True, False)
        for acls in ([other], [other, *notes])
    ]
    answers = [each["decisions"] for each in kafka_answers(request.getfixturevalue(release), cases)]
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
    assert set("".join(answers[0])) == {"A", "D"}


def row_of(each: Acl) -> tuple[str, ...]:
    named = name_acl(each)
    return (
        named.resource_type, named.resource_name, named.pattern_type, named.principal, named.host,
        named.operation, named.permission_type,
    )  # fmt: skip
