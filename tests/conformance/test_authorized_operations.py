"""Metadata, DescribeGroups and DescribeCluster of a broker and of our daemon, over one log.

**Invariant:** in every version, both give the same answer, except for the node's address.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.kafka_clients import create_topics
from tests.kafka_rig.broker import ADMIN, Broker, running_broker
from tests.kafka_rig.rig import Program, Rig
from tests.support.daemon_process import DaemonProcess, running
from tests.support.kafka_connection import KafkaConnection
from tests.support.log_files import read_cluster

SECONDS_MAX = 30.0
SEEN, HIDDEN, ABSENT, ABSENT_HIDDEN = "seen", "hidden", "absent-seen", "absent-hidden"
UNKNOWN_ID = UUID(int=99)
GRANTS = (
    ("--operation", "Read", "--topic", SEEN),
    ("--operation", "Alter", "--topic", ABSENT),
    ("--operation", "Describe", "--topic", "bad/name"),
    ("--operation", "Delete", "--group", "billing"),
    ("--operation", "Alter", "--cluster"),
    ("--operation", "Create", "--cluster"),
)
PASSING_ERRORS = {14, 15, 16}
"""A broker's errors for groups until their coordinator is ready."""


def ready_for_groups(peer: KafkaConnection) -> None:
    """Wait until the broker has created and read the topic of its groups."""
    give_up = time.monotonic() + SECONDS_MAX
    while True:
        peer.ask(ApiKey.FIND_COORDINATOR, 0, key="billing")
        (group,) = peer.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["billing"]).groups
        if group.error_code not in PASSING_ERRORS:
            return
        assert time.monotonic() < give_up, group
        time.sleep(0.2)


@dataclass
class Both:
    """Both sides; ``ids`` has the id of each topic by name, from the log."""

    theirs: KafkaConnection
    ours: KafkaConnection
    ids: dict[str, UUID]


@pytest.fixture(scope="module")
def both(rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Run a broker, and our daemon on a copy of its log."""
    folder = tmp_path_factory.mktemp("both")
    shutil.copytree(formatted, folder / "theirs")
    with running_broker(rig, folder / "broker", folder / "theirs") as broker:
        create_topics(broker, ADMIN, SEEN, HIDDEN)
        for grant in GRANTS:
            allow = ("--add", "--allow-principal", "User:ANONYMOUS", *grant)
            assert broker.run(Program.ACLS, *allow).exit_code == 0
        with closing(KafkaConnection(broker.plaintext)) as theirs:
            ready_for_groups(theirs)
            with (
                our_daemon(folder, broker) as daemon,
                closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as ours,
            ):
                topics = read_cluster(folder / "ours").topics
                ids = {name: UUID(bytes=topic.id) for name, topic in topics.items()}
                yield Both(theirs, ours, ids)


def our_daemon(folder: Path, broker: Broker) -> AbstractContextManager[DaemonProcess]:
    (folder / "config").mkdir()
    shutil.copytree(broker.log_dir, folder / "ours", ignore=shutil.ignore_patterns(".lock"))
    return running(folder / "config", folder / "ours", super_users=f"User:{ADMIN}")


def topics_of(
    peer: KafkaConnection, version: int, asked: list[str | UUID] | None, wanted: bool
) -> list[Any]:
    items = [
        SimpleNamespace(name=each, topic_id=None)
        if isinstance(each, str)
        else SimpleNamespace(name=None, topic_id=each)
        for each in asked or ()
    ]
    answer = peer.ask(
        ApiKey.METADATA,
        version,
        topics=None if asked is None and version else items,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=wanted and version in range(8, 11),
        include_topic_authorized_operations=wanted and version >= 8,
    )
    rest = getattr(answer, "cluster_authorized_operations", None)
    return [rest, *sorted(answer.topics, key=lambda topic: (str(topic.name), repr(topic)))]


@pytest.mark.parametrize("version", APIS[ApiKey.METADATA].versions)
@pytest.mark.parametrize("wanted", [False, True])
def test_metadata_is_the_same(both: Both, version: int, wanted: bool) -> None:
    """Some topics exist, some may be described. Ask by name, by id, for all, and for none."""
    names = [SEEN, HIDDEN, ABSENT, ABSENT_HIDDEN, "bad/name", "__share_group_state"]
    questions: list[list[str | UUID] | None] = [[*names], None]
    if version:
        questions.append([])
    if version >= 12:
        questions.append([both.ids[SEEN], both.ids[HIDDEN], UNKNOWN_ID])
    for question in questions:
        _, *topics = expected = topics_of(both.theirs, version, question, wanted)
        assert len(topics) == (1 if question is None else len(question))
        assert topics_of(both.ours, version, question, wanted) == expected


@pytest.mark.parametrize("version", APIS[ApiKey.DESCRIBE_GROUPS].versions)
@pytest.mark.parametrize("wanted", [False, True])
def test_describe_groups_is_the_same(both: Both, version: int, wanted: bool) -> None:
    answers = [
        {
            group.group_id: group
            for group in peer.ask(
                ApiKey.DESCRIBE_GROUPS,
                version,
                groups=["billing", "hidden"],
                include_authorized_operations=wanted and version >= 3,
            ).groups
        }
        for peer in (both.theirs, both.ours)
    ]
    assert answers[0] == answers[1]
    assert answers[0]["hidden"].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", APIS[ApiKey.DESCRIBE_CLUSTER].versions)
@pytest.mark.parametrize("wanted", [False, True])
def test_describe_cluster_is_the_same(both: Both, version: int, wanted: bool) -> None:
    theirs, ours = (
        peer.ask(
            ApiKey.DESCRIBE_CLUSTER,
            version,
            include_cluster_authorized_operations=wanted,
            endpoint_type=1,
            include_fenced_brokers=False,
        )
        for peer in (both.theirs, both.ours)
    )
    assert ours.cluster_authorized_operations == theirs.cluster_authorized_operations
    assert (ours.error_code, ours.cluster_id, ours.controller_id) == (
        theirs.error_code,
        theirs.cluster_id,
        theirs.controller_id,
    )
    assert [node.broker_id for node in ours.brokers] == [node.broker_id for node in theirs.brokers]


@pytest.mark.parametrize("version", APIS[ApiKey.LIST_GROUPS].versions)
@pytest.mark.parametrize(
    ("states", "types"), [((), ()), (("Stable",), ("classic",)), (("absent",), ("absent",))]
)
def test_list_groups_is_the_same(
    both: Both, version: int, states: tuple[str, ...], types: tuple[str, ...]
) -> None:
    theirs, ours = (
        peer.ask(ApiKey.LIST_GROUPS, version, states_filter=states, types_filter=types)
        for peer in (both.theirs, both.ours)
    )
    assert ours == theirs
    assert ours.groups == ()
