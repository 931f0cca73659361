"""A cluster's directories, configurations and processes, with a script in place of Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.config.configuration import parse_values
from authorizerd.config.follow.settings import LogIn, SourceKind
from authorizerd.config.properties import parse_properties
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, POLLER, ClusterSettings
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.kafka_rig.member import Member
from tests.kafka_rig.process import KafkaProcess
from tests.kafka_rig.programs import Programs, has_ended, is_running
from tests.kafka_rig.rig import Rig, RigError

WAIT = "echo 'Kafka Server started'; while :; do sleep 0.05; done"
FORMAT = """
case "$*" in
*StorageTool*)
  while read -r line; do case "$line" in log.dirs=*) log="${line#log.dirs=}";; esac; done < "$6"
  mkdir -p "$log/__cluster_metadata-0"
  echo 'directory.id=formatted' > "$log/meta.properties"
  echo checkpoint > "$log/__cluster_metadata-0/0.checkpoint";;
esac
"""


def new_cluster(directory: Path, *, controllers: int) -> Cluster:
    return Cluster(Rig(""), directory, ClusterSettings(controllers=controllers))


def read(member: Member, file: str = "server.properties") -> dict[str, str]:
    text = (member.directory / file).read_text()
    return {key: each.value for key, each in parse_properties(text, source="p").items()}


def test_voters_share_one_format_and_brokers_get_no_log(programs: Programs, tmp_path: Path) -> None:
    programs.link("mkdir")
    programs.write("java", FORMAT.replace('"$6"', f'"{tmp_path}/controller-1/server.properties"'))
    cluster = new_cluster(tmp_path, controllers=3)
    first_id = cluster.members[1].directory_id
    cluster.format()
    (call,) = programs.calls
    assert f"--initial-controllers 1@{cluster.members[1].controller}:{first_id},2@" in call
    seen = {read(each, "log/meta.properties")["directory.id"] for each in cluster.members.values()}
    assert len(seen) == 4
    assert [each.metadata_dir.exists() for each in cluster.members.values()] == [True] * 3 + [False]
    assert read(cluster.members[2], "log/meta.properties")["node.id"] == "2"


def test_every_node_names_all_controllers(programs: Programs, tmp_path: Path) -> None:
    programs.write("java", WAIT)
    cluster = new_cluster(tmp_path, controllers=2)
    try:
        for node_id in cluster.members:
            cluster.start(node_id)
        controller, _, broker = map(read, cluster.members.values())
        both = cluster.bootstrap_controllers
        assert len(both.split(",")) == 2
        assert controller["controller.quorum.bootstrap.servers"] == both
        assert broker["controller.quorum.bootstrap.servers"] == both
        assert "controller.quorum.voters" not in controller
        assert controller["process.roles"] == "controller"
        assert "CONTROLLER://" not in broker["listeners"]
        old = cluster.members[1].controller
        cluster.move(1)
        assert old not in cluster.bootstrap_controllers
        assert old not in read(cluster.members[1])["listeners"]
    finally:
        cluster.close()
    assert all(has_ended(each.process.process_id) for each in cluster.members.values())


def test_node_is_restarted_with_another_release_on_the_same_data(
    programs: Programs, tmp_path: Path
) -> None:
    programs.write("java", WAIT)
    cluster = new_cluster(tmp_path, controllers=1)
    try:
        cluster.start(1)
        first = cluster.members[1].process.process_id
        cluster.restart_with(1, Rig("newer.jar"))
        assert has_ended(first)
    finally:
        cluster.close()
    old, new = programs.calls
    assert new == old.replace("-cp  ", "-cp newer.jar ")


def test_daemons_follow_by_settings_that_name_every_node(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path, controllers=3)
    for properties, kind, user, members in (
        (quorum_source(cluster), SourceKind.QUORUM, FOLLOWER, cluster.controllers),
        (brokers_source(cluster), SourceKind.BROKERS, POLLER, cluster.brokers),
    ):
        own = {"node.id": "9", "log.dirs": str(tmp_path)}
        follow = parse_values(own | properties, source="rig").follow
        assert follow is not None
        assert follow.kind is kind
        assert follow.log_in == LogIn(mechanism="PLAIN", username=user, password=f"{user}-secret")
        assert [f"{each.host}:{each.port}" for each in follow.servers] == [
            each.address for each in members
        ]


def new_process(directory: Path) -> KafkaProcess:
    return KafkaProcess(
        Rig(""), directory, directory / "p", name="node", jvm_options=(), audit_level="INFO"
    )


def test_paused_node_can_answer_only_after_it_was_resumed(
    programs: Programs, tmp_path: Path
) -> None:
    programs.write("java", WAIT)
    process = new_process(tmp_path)
    assert not process.is_running
    process.start()
    try:
        process.wait_until_ready()
        assert process.can_answer
        process.pause()
        assert process.is_running
        assert not process.can_answer
        process.resume()
        assert process.can_answer
    finally:
        process.kill()
    assert not process.is_running
    assert not is_running(process.process_id)


def test_restarted_node_is_ready_only_when_it_says_so_again(
    programs: Programs, tmp_path: Path
) -> None:
    """The log of the first start also says that the node has started."""
    programs.write("java", WAIT)
    process = new_process(tmp_path)
    process.start()
    process.wait_until_ready()
    process.kill()
    programs.write("java", "exit 1")
    process.start()
    with pytest.raises(RigError, match="the node ended"):
        process.wait_until_ready()
