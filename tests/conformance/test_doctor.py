"""doctor and import-config against a real cluster: rights, cluster ids, a broker's own file."""

import io
from collections.abc import Mapping
from pathlib import Path

from authorizerd.cli.doctor.command import run_doctor
from authorizerd.cli.main import main
from tests.kafka_rig.broker import CLUSTER_ID
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, ClusterSettings
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import write_config

EXPECTED_ID = "authorizerd.source.cluster.id"


def examine(folder: Path, keys: Mapping[str, str]) -> tuple[int, str]:
    """Return doctor's exit code, and its lines about the cluster."""
    out = io.StringIO()
    config = write_config(folder, folder / "copy", keys)
    config.chmod(0o600)
    code = run_doctor(["--config", str(config)], out)
    return code, "\n".join(line for line in out.getvalue().splitlines() if ": source: " in line)


def check_rights(folder: Path, cluster: Cluster) -> None:
    """A follower needs CLUSTER_ACTION at controllers, and DESCRIBE at brokers, and no more."""
    code, lines = examine(folder, quorum_source(cluster))
    assert (code, lines.count("CLUSTER_ACTION is allowed")) == (0, 2)
    assert "more in the cluster than it needs" not in lines
    code, lines = examine(folder, brokers_source(cluster))
    assert (code, lines.count(f"DESCRIBE is allowed, cluster {CLUSTER_ID}")) == (0, 1)
    for keys, right in (
        (quorum_source(cluster, "alice"), "ClusterAction"),
        (brokers_source(cluster, "alice"), "Describe"),
    ):
        code, lines = examine(folder, keys)
        assert code == 2
        assert f"--operation {right} --allow-principal User:alice" in lines
    code, lines = examine(folder, {**quorum_source(cluster), "authorizerd.writes": "as-self"})
    assert code == 2
    assert f"--operation Alter --allow-principal User:{FOLLOWER}" in lines
    code, lines = examine(folder, quorum_source(cluster, "admin"))
    assert code == 0
    assert "more in the cluster than it needs: ALTER" in lines
    code, lines = examine(folder, brokers_source(cluster, "admin"))
    assert code == 0
    assert "CLUSTER_ACTION, it reads topics and acts as anyone). Do: remove the user from" in lines


def check_places(folder: Path, cluster: Cluster) -> None:
    """Another cluster, and the listeners of other nodes, are named."""
    for source in (quorum_source(cluster), brokers_source(cluster)):
        assert examine(folder, {**source, EXPECTED_ID: CLUSTER_ID})[0] == 0
        code, lines = examine(folder, {**source, EXPECTED_ID: "another"})
        assert code == 2
        assert "not to cluster another" in lines
    quorum = quorum_source(cluster)
    quorum["controller.quorum.bootstrap.servers"] = cluster.bootstrap_servers
    assert "expected a controller's listener, found a broker's" in examine(folder, quorum)[1]
    brokers = brokers_source(cluster)
    brokers["authorizerd.source.bootstrap.servers"] = cluster.bootstrap_controllers
    assert "expected a broker's listener, found a controller's" in examine(folder, brokers)[1]


def test_doctor_judges_a_real_cluster(rig: Rig, tmp_path: Path) -> None:
    with running_cluster(rig, tmp_path / "cluster", ClusterSettings(controllers=2)) as cluster:
        check_rights(tmp_path, cluster)
        check_places(tmp_path, cluster)
        file = cluster.members[FIRST_BROKER].directory / "server.properties"
        made, copy = tmp_path / "made.properties", tmp_path / "copy"
        arguments = ["--output", str(made), "--log-dir", str(copy)]
        assert main(["import-config", str(file), *arguments]) == 0
        assert f"\n{EXPECTED_ID}={CLUSTER_ID}\n" in made.read_text()
        out = io.StringIO()
        free = "listeners=LOCAL://127.0.0.1:0"
        code = run_doctor(["--config", str(made), "--override", free], out)
        assert code == 0, out.getvalue()
        assert out.getvalue().count("CLUSTER_ACTION is allowed") == 2
