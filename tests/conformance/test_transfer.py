"""ACLs of a real broker go to every place and come back, and its own kafka-acls lists the same.

New logs and checkpoints are at 4.4-IV2, so a broker of Kafka 4.4 reads them.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import AclFilter
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.acls.connection_settings import read_settings
from authorizerd.cli.acls.remote import KafkaAclAdmin
from authorizerd.cli.main import main
from authorizerd.kafka_client.client import KafkaClient
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.conformance.kafka_files import dump_records, listed_acls
from tests.kafka_rig.broker import ADMIN, CLUSTER_ID, Broker, format_storage, running_broker
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tests.support.fixture_types import Capture, TempPathFactory
from tests.support.kafka_acls_output import bindings
from tests.support.log_files import acl_id, added, read_acls, write_log

NOT_IN_ZOOKEEPER = "operation=TWO_PHASE_COMMIT"
"""No Kafka version with ZooKeeper knows it, which the export says."""
CHECKPOINT = "00000000000000000007-0000000001.checkpoint"
ODD = (
    acl("User:ANONYMOUS", "DESCRIBE", topic="t", host="0:0:0:0:0:0:0:1"),
    acl("User:a", "WRITE", topic="pay-", pattern="PREFIXED", deny=True),
    acl("User:CN=Zoé 日本,O=x", "TWO_PHASE_COMMIT", transactional_id="été \U0001f600"),
    acl("User:*", "ALL", topic="*", pattern="PREFIXED", deny=True),
    acl("User:a", "ALTER", cluster=True),
    acl("User:a", "CREATE_TOKENS", user="User:b"),
)


def connection(broker: Broker, user: str = ADMIN) -> list[str]:
    config = str(broker.client_config(user))
    return ["--bootstrap-server", broker.sasl_plaintext, "--command-config", config]


@pytest.fixture(scope="module")
def origin(rig: Rig, real_log_dir: Path, tmp_path_factory: TempPathFactory) -> Iterator[Broker]:
    """Run a broker with the 1,751 ACLs of the recorded one, and odd ones, made by imports."""
    folder = tmp_path_factory.mktemp("origin")
    write_log(folder / "odd", [added(number, each) for number, each in enumerate(ODD, 1)])
    format_storage(rig, folder, folder / "log")
    with running_broker(rig, folder, folder / "log") as broker:
        for source in (real_log_dir, folder / "odd"):
            assert main(["acls", "import", str(source), *connection(broker)]) == 0
        yield broker


@pytest.fixture(scope="module")
def fresh(rig: Rig, tmp_path_factory: TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("fresh")
    format_storage(rig, folder, folder / "log")
    with running_broker(rig, folder, folder / "log") as broker:
        yield broker


@pytest.fixture
def target(fresh: Broker) -> Broker:
    """Return a broker without ACLs."""
    remove_all(fresh)
    assert listed_acls(fresh) == set()
    return fresh


def remove_all(broker: Broker) -> None:
    """Delete every ACL, in one request that kafka-acls cannot express."""
    config = str(broker.client_config(ADMIN))
    given = {"bootstrap-server": [broker.sasl_plaintext], "command-config": [config]}
    settings = read_settings(Arguments(given))

    async def remove() -> None:
        async with KafkaClient(settings, lambda _: None) as client:
            await KafkaAclAdmin(client).delete([AclFilter()])

    trio.run(remove)


def test_imported_acls_are_those_of_the_recorded_broker(origin: Broker, real_log_dir: Path) -> None:
    recorded = bindings((real_log_dir / "acls-list.txt").read_text())
    listed = listed_acls(origin)
    assert recorded <= listed
    assert len(listed - recorded) == len(ODD)


@pytest.mark.parametrize("kind", ["yaml", "json", "listing", "zookeeper", "log", "checkpoint"])
def test_acls_survive_a_round_trip_through_every_place(
    kind: str, origin: Broker, target: Broker, tmp_path: Path
) -> None:
    place = {"checkpoint": CHECKPOINT, "log": "log/"}.get(kind, f"acls.{kind}")
    locator = str(tmp_path / place) + ("/" if kind == "log" else "")
    if kind in ("listing", "zookeeper"):
        locator = f"{kind}:{locator}"
    flags = {"log": ["--node-id", "1"], "zookeeper": ["--accept-losses"]}.get(kind, [])
    assert main(["acls", "export", *connection(origin), "--to", locator, *flags]) == 0
    assert main(["acls", "import", locator, *connection(target)]) == 0
    expected = listed_acls(origin)
    if kind == "zookeeper":
        expected = {each for each in expected if NOT_IN_ZOOKEEPER not in each[1]}
    assert listed_acls(target) == expected


def test_acls_go_from_one_cluster_to_another(origin: Broker, target: Broker) -> None:
    configs = [str(each.client_config(ADMIN)) for each in (origin, target)]
    source, goal = (f"kafka://{each.sasl_plaintext}" for each in (origin, target))
    words = ["--to", goal, "--from-config", configs[0], "--to-config", configs[1]]
    assert main(["acls", "import", source, *words]) == 0
    assert listed_acls(target) == listed_acls(origin)


def test_dry_run_changes_nothing(
    origin: Broker, target: Broker, capsys: Capture, tmp_path: Path
) -> None:
    listing = f"listing:{tmp_path / 'acls'}"
    assert main(["acls", "export", *connection(origin), "--to", listing]) == 0
    capsys.readouterr()
    assert main(["acls", "import", listing, *connection(target), "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["new"], report["written"]) == (1751 + len(ODD), 0)
    assert listed_acls(target) == set()


def test_missing_right_changes_nothing(target: Broker, capsys: Capture, tmp_path: Path) -> None:
    """alice may list ACLs, but not create them."""
    granted = ["--add", "--allow-principal", "User:alice", "--operation", "Describe", "--cluster"]
    assert main(["acls", *connection(target), *granted]) == 0
    write_log(tmp_path, [added(1)])
    before = listed_acls(target)
    assert main(["acls", "import", str(tmp_path), *connection(target, "alice")]) == 1
    assert "User:alice may not create ACLs" in capsys.readouterr().err
    assert listed_acls(target) == before


def test_broker_continues_an_imported_log(newest_rig: Rig, origin: Broker, tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    node = ["--node-id", "1", "--cluster-id", CLUSTER_ID]
    assert main(["acls", "export", *connection(origin), "--to", f"log:{log_dir}", *node]) == 0
    with running_broker(newest_rig, tmp_path / "broker", log_dir) as broker:
        assert listed_acls(broker) == listed_acls(origin)


def test_broker_reads_acls_that_were_appended_in_a_transaction(
    newest_rig: Rig, tmp_path: Path
) -> None:
    """A stopped broker's log gets more ACLs than fit into one batch."""
    log_dir = tmp_path / "log"
    first, more = acl("User:a", topic="first"), RECORDS_PER_REQUEST_MAX + 1
    write_log(tmp_path / "first", [added(1, first)])
    changes = [added(n, acl("User:b", topic=f"t-{n}")) for n in range(2, more + 2)]
    write_log(tmp_path / "more", changes[:6000], changes[6000:])
    node = ["--node-id", "1", "--cluster-id", CLUSTER_ID]
    assert main(["acls", "import", str(tmp_path / "first"), "--log-dir", str(log_dir), *node]) == 0
    assert main(["acls", "import", str(tmp_path / "more"), "--log-dir", str(log_dir)]) == 0
    with running_broker(newest_rig, tmp_path / "broker", log_dir) as broker:
        assert len(listed_acls(broker)) == more + 1
    assert read_acls(log_dir)[acl_id(2)] == changes[0].acl


def test_kafkas_tools_and_a_broker_read_an_exported_checkpoint(
    newest_rig: Rig, origin: Broker, tmp_path: Path
) -> None:
    checkpoint = tmp_path / CHECKPOINT
    assert main(["acls", "export", *connection(origin), "--to", str(checkpoint)]) == 0
    records = dump_records(newest_rig, checkpoint)
    assert records[0] == (
        "FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 33}
    )  # fmt: skip
    log_dir = tmp_path / "log"
    format_storage(newest_rig, tmp_path / "formatted", log_dir)
    (log_dir / METADATA_TOPIC_DIRECTORY).mkdir(exist_ok=True)
    shutil.copy(checkpoint, log_dir / METADATA_TOPIC_DIRECTORY)
    with running_broker(newest_rig, tmp_path / "broker", log_dir) as broker:
        assert listed_acls(broker) == listed_acls(origin)


def test_acl_of_another_version_is_only_in_the_log(
    newest_rig: Rig, capsys: Capture, tmp_path: Path
) -> None:
    """A broker with such an ACL lists none. Its log gives all, with their codes."""
    unknown = acl("User:a", 99, topic="t", deny=True)
    write_log(tmp_path / "newer", [added(1), added(2, unknown)])
    node = ["--node-id", "1", "--cluster-id", CLUSTER_ID]
    newer, log = str(tmp_path / "newer"), str(tmp_path / "log")
    assert main(["acls", "import", newer, "--log-dir", log, *node]) == 0
    with running_broker(newest_rig, tmp_path / "broker", tmp_path / "log") as broker:
        assert broker.run(Program.ACLS, "--list").exit_code == 1
        capsys.readouterr()
        assert main(["acls", "export", *connection(broker)]) == 1
        assert "Its log directory can be read (--log-dir)" in capsys.readouterr().err
    checkpoint = str(tmp_path / CHECKPOINT)
    assert main(["acls", "export", "--log-dir", log, "--to", checkpoint]) == 0
    assert read_acls(tmp_path / CHECKPOINT) == {acl_id(1): added(1).acl, acl_id(2): unknown}
