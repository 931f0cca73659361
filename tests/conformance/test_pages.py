"""The commands of the pages that need a real Kafka or a package index, run as the pages show them.

Kafka's tools are scripts on the path. The hosts and files of a page are replaced by real ones.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from authorizerd.acl.model import AclFilter
from tests.end_to_end.documents import ROOT
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.kafka_rig.broker import ADMIN, running_broker
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster
from tests.kafka_rig.properties import client_properties, write_properties
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tools.release.source import export_commit

SECONDS_MAX = 300
"""Time limit of a command: pip downloads."""
TEST = "tests/conformance/test_pages.py"
FREE_PORTS = " ".join(
    f"--override {each}:0"
    for each in (
        "listeners=LOCAL://127.0.0.1",
        "authorizerd.decision.http=http://127.0.0.1",
        "authorizerd.decision.stream=tcp://127.0.0.1",
        "authorizerd.admin.http=http://127.0.0.1",
    )
)


def names(real: Mapping[str, str]) -> Names:
    return Names(real, Ports())


def write_login(path: Path, cluster: Cluster) -> None:
    """Write the configuration with which the cluster's admin logs in."""
    write_properties(path, client_properties(ADMIN, cluster.settings.node.users[ADMIN]))


def test_kafka_configs_changes_users(shell: Shell) -> None:
    ports = Ports()
    run_page("authentication.md", None, shell, ports)
    run_page("authentication.md", TEST, shell, ports)


def test_kafka_configs_rotates_a_certificate(shell: Shell) -> None:
    ports = Ports()
    run_page("tls.md", "tests/end_to_end/test_tls.py", shell, ports)
    real = {
        "authorizer.example.com:9093": "localhost:9093",
        "admin.properties": "client.properties",
        "/etc/authorizerd/": f"{shell.folder}/",
    }
    run_page("tls.md", TEST, shell, Names(real, ports))


def test_daemon_is_added_to_a_cluster(cluster: Cluster, shell: Shell) -> None:
    write_login(shell.folder / "admin.properties", cluster)
    shown, made = "/etc/authorizerd/server.properties", str(shell.folder / "server.properties")
    real = {
        "/etc/kafka/server.properties": str(cluster.members[FIRST_BROKER].config),
        shown: made,
        f"doctor --config {shown}": f"doctor --config {made} {FREE_PORTS}",
        "broker1:9092": cluster.bootstrap_servers,
        "c1:9093,c2:9093": cluster.bootstrap_controllers,
    }
    try:
        run_page("topologies.md", TEST, shell, names(real))
    finally:
        removed = [
            cluster.delete(AclFilter(principal=f"User:{user}")) for user in ("authorizerd", "alice")
        ]
    assert [len(each) for each in removed] == [1, 1]


def test_acls_are_copied_between_clusters(
    cluster: Cluster, rig: Rig, formatted: Path, shell: Shell
) -> None:
    folder = shell.folder
    copied = acl("User:copied", "READ", topic="orders")
    cluster.create(copied)
    log_dir = Path(shutil.copytree(formatted, folder / "kafka"))
    try:
        with running_broker(rig, folder / "broker", log_dir) as broker:
            write_login(folder / "prod.properties", cluster)
            shutil.copy(broker.client_config(ADMIN), folder / "test.properties")
            real = {"prod:9092": cluster.bootstrap_servers, "test:9092": broker.sasl_plaintext}
            run_page("import-export.md", TEST, shell, names(real))
            listed = broker.run(Program.ACLS, "--list", "--principal", copied.principal)
        assert "principal=User:copied, host=*, operation=READ" in listed.stdout
    finally:
        assert cluster.delete(AclFilter(principal=copied.principal)) == [copied]


def test_wheel_is_installed_with_its_dependencies(tmp_path: Path) -> None:
    source = export_commit(ROOT, tmp_path / "source")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    command = (sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", tmp_path, source)
    subprocess.run(command, check=True, timeout=SECONDS_MAX)
    with Shell(tmp_path, SECONDS_MAX, PYTHONPATH="") as shell:
        run_page("install.md", TEST, shell, Ports())
