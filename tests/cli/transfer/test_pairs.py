"""Every source and target in pairs: the target has the source's ACLs, except for named losses."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.management.formats.catalogue import FORMATS
from tests.cli.transfer import places
from tests.support.daemon_process import new_log, running, write_config
from tests.support.log_files import added, read_acls, write_log
from tests.support.printed import run_main
from tests.support.sizes import size

KINDS = (*FORMATS, "log", "checkpoint", "cluster")
LOSSLESS = (
    *("yaml", "json", "listing", "csv", "kafka-gitops", "terraform"),
    *("zookeeper", "log", "checkpoint", "cluster"),
)
"""The kinds that can hold all ACLs of the real broker."""
ACLS = tuple(dict.fromkeys((*places.ODD, *places.random_acls(size(50, 150)))))
NODE = ("--node-id", "1")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a daemon that has ``ACLS``, and an empty one."""
    with ExitStack() as stack:
        addresses = {}
        for name in ("source", "target"):
            folder = tmp_path_factory.mktemp(name)
            if name == "source":
                log_dir = folder / "log"
                write_log(log_dir, [added(number, each) for number, each in enumerate(ACLS, 1)])
            else:
                log_dir = new_log(folder)
            daemon = stack.enter_context(running(folder, log_dir, super_users="User:ANONYMOUS"))
            addresses[name] = f"kafka://{daemon.ready['listeners']['PLAINTEXT']}"
        yield addresses


def named_acl(document: dict[str, str]) -> tuple[str, ...]:
    return tuple(document.values())


def names_of(acl: Acl) -> tuple[str, ...]:
    return (
        ResourceType.read(acl.resource_type).name, acl.resource_name,
        PatternType.read(acl.pattern_type).name, acl.principal, acl.host,
        Operation.read(acl.operation).name, PermissionType.read(acl.permission_type).name,
    )  # fmt: skip


def transfer(*words: str) -> dict[str, Any]:
    """Export with ``--json``, and return the report."""
    report: dict[str, Any] = json.loads(run_main("acls", "export", "--json", *words).out)
    return report


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_target_has_all_but_the_named_losses(
    source: str, target: str, clusters: dict[str, str], tmp_path: Path,

) -> None:  # fmt: skip
    (tmp_path / "to").mkdir()
    if source == "cluster":
        origin, held = clusters["source"], frozenset(ACLS)
    else:
        origin, held = places.make_place(source, tmp_path, ACLS)
    place = (
        clusters["target"] if target == "cluster" else places.new_target(target, tmp_path / "to")
    )
    node = NODE if target == "log" else ()
    if target == "cluster":
        places.change_cluster(place.removeprefix("kafka://"), clear=True)
    report = transfer("--from", origin, "--to", place, "--accept-losses", *node)
    found = places.read_place(target, place)
    assert found <= held, "the target has an ACL that the source lacks"
    lost = [named_acl(each["acl"]) for each in report["losses"] if each["acl"] is not None]
    assert sorted(lost) == sorted(map(names_of, held - found)), "a named loss is wrong"
    assert report["written"] == len(found)
    assert report["read"] == len(held)


@pytest.mark.parametrize("target", KINDS)
def test_acls_of_a_real_broker_survive_everywhere(
    target: str, clusters: dict[str, str], real_log_dir: Path, tmp_path: Path,

) -> None:  # fmt: skip
    """Export the 1,751 ACLs, and import them from there into a log."""
    place = clusters["target"] if target == "cluster" else places.new_target(target, tmp_path)
    node = NODE if target == "log" else ()
    if target == "cluster":
        places.change_cluster(place.removeprefix("kafka://"), clear=True)
    losses = () if target in LOSSLESS else ("--accept-losses",)
    report = transfer("--log-dir", str(real_log_dir), "--to", place, *losses, *node)
    real = frozenset(read_acls(real_log_dir).values())
    found = places.read_place(target, place)
    assert len(real) == 1751
    lost = sorted(named_acl(each["acl"]) for each in report["losses"])
    assert lost == sorted(map(names_of, real - found))
    assert not (lost and target in LOSSLESS)
    assert found <= real
    back = str(tmp_path / "back")
    run_main("acls", "import", place, "--log-dir", back, *NODE)
    assert places.read_place("log", back) == found
    again = json.loads(run_main("acls", "import", place, "--log-dir", back, "--json").out)
    assert (again["present"], again["new"], again["written"]) == (len(found), 0, 0)


def test_ids_survive_between_logs_and_checkpoints(real_log_dir: Path, tmp_path: Path) -> None:
    checkpoint = places.new_target("checkpoint", tmp_path)
    transfer("--log-dir", str(real_log_dir), "--to", checkpoint)
    transfer("--from", checkpoint, "--to", f"log:{tmp_path / 'log'}", *NODE)
    assert read_acls(tmp_path / "log") == read_acls(real_log_dir)


def test_daemon_serves_what_was_imported_into_its_log(real_log_dir: Path, tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    config = str(write_config(tmp_path, log_dir))
    run_main("acls", "import", real_log_dir / "acls-list.txt", "--config", config)
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        assert len(places.read_place("cluster", address)) == 1751
        # The daemon holds the log's lock.
        words = ["acls", "import", str(real_log_dir / "acls-list.txt"), "--log-dir", str(log_dir)]
        assert "in use by another process" in run_main(*words, code=1).err
