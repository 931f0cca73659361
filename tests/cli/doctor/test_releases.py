"""By which releases' rules the daemon judges, as doctor sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE
from authorizerd.cli.doctor.finding import Level
from authorizerd.cli.doctor.log import ask_brokers, examine_releases
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind
from authorizerd.image.changes import FeatureLevel
from tests.support.foreign_records import node
from tests.support.log_files import write_log
from tests.support.scripted_brokers import ScriptedCluster

QUORUM = """\
controller.quorum.bootstrap.servers=127.0.0.1:1
controller.listener.names=C
listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""
BROKERS = "authorizerd.source=brokers\nauthorizerd.source.bootstrap.servers=127.0.0.1:1\n"


def configure(log_dir: Path, text: str = "") -> Configuration:
    return parse(f"node.id=1\nlog.dirs={log_dir}\n{text}", source="server.properties")


@pytest.mark.parametrize(
    ("settings", "records", "level", "said"),
    [
        ("", [FeatureLevel("metadata.version", 30)], Level.OK, "Kafka 4.3: the log's"),
        ("", [FeatureLevel("metadata.version", 34)], Level.WARNING, "34, above 33, the newest"),
        ("authorizerd.kafka.release=4.4", [], Level.OK, "4.4: authorizerd.kafka.release=4.4"),
        (
            QUORUM,
            [FeatureLevel("metadata.version", 30), node(1, 30), node(9, 33, is_controller=True)],
            Level.WARNING,
            "broker 1 runs 4.3; controller 9 runs 4.4",
        ),
        (BROKERS, [], Level.WARNING, UNKNOWN_RELEASE.reason),
    ],
)
def test_finding_names_what_keeps_a_mix(
    tmp_path: Path, settings: str, records: list[FeatureLevel | bytes], level: Level, said: str
) -> None:
    write_log(tmp_path, *([records] if records else []))
    [finding] = examine_releases(configure(tmp_path, settings))
    assert finding.level is level
    assert said in finding.text


def test_nothing_is_said_without_a_log(tmp_path: Path) -> None:
    assert list(examine_releases(configure(tmp_path / "none"))) == []


async def test_every_broker_is_asked(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(nursery)
    cluster.brokers[2].level = 33
    settings = FollowSettings(kind=SourceKind.BROKERS, servers=(Server("bootstrap", 1),))
    image = await ask_brokers(settings, cluster.open_node)
    assert {key: each.level for key, each in image.nodes.items()} == {
        (False, 1): 30,
        (False, 2): 33,
    }
