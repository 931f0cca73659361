"""The command that raises the level of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.model import AclAdded
from authorizerd.acl.releases import RULES_4_3, RULES_4_4
from authorizerd.cli.main import main
from authorizerd.daemon.sources.own_log_directory import format_log_directory
from authorizerd.metadata.storage import DISK
from tests.support.acls import acl
from tests.support.log_files import read_acls, read_cluster

RANGE = acl(topic="t", host="10.0.0.0/8", deny=True)


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    """Return a log at the level of 4.3, with an ACL for a range."""
    log_dir = tmp_path / "log"
    format_log_directory(
        log_dir,
        cluster_id=None,
        node_id=1,
        storage=DISK,
        batches=[[AclAdded(bytes(16), RANGE)]],
        metadata_version=30,
    )
    return log_dir


def test_upgrade_raises_the_level_and_names_the_ranges(
    old_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ACLs stay. A second upgrade changes nothing."""
    upgrade = ["features", "upgrade", "--log-dir", str(old_log), "--metadata", "4.4-IV2"]
    assert main(["features", "describe", "--log-dir", str(old_log)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "metadata.version: 4.3-IV0 (30)",
        f"A daemon that owns this log judges by the rules of Kafka {RULES_4_3}.",
    ]
    assert main(upgrade) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{old_log}: 4.3-IV0 (30) is now 4.4-IV2 (33).",
        f"ACLs are judged by the rules of Kafka {RULES_4_4} from now on.",
        "1 ACL may match a range of addresses now:",
        f"  {RANGE}",
    ]
    assert read_cluster(old_log).metadata_version == 33
    assert list(read_acls(old_log).values()) == [RANGE]
    assert main(upgrade) == 0
    assert capsys.readouterr().out == "The log has 4.4-IV2 (33) already.\n"


def test_level_is_not_lowered(old_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["features", "upgrade", "--log-dir", str(old_log), "--metadata"]
    assert main([*flags, "4.4-IV2"]) == 0
    assert main([*flags, "4.3-IV0"]) == 1
    assert "expected at least 4.4-IV2 (33)" in capsys.readouterr().err
    assert read_cluster(old_log).metadata_version == 33


@pytest.mark.parametrize(
    "words", [["upgrade"], ["describe", "--metadata", "4.4"], ["upgrade", "--metadata", "4.4-IV0"]]
)
def test_invalid_flags_are_rejected(words: list[str], old_log: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["features", *words, "--log-dir", str(old_log)])
    assert ended.value.code == 2


def test_new_log_has_the_level_that_is_named(tmp_path: Path) -> None:
    """4.4's by default; 4.3's for a log that Kafka 4.3 can read."""
    config = tmp_path / "server.properties"
    for flags, level in (([], 33), (["--release-version", "4.3-IV0"], 30)):
        log_dir = tmp_path / str(level)
        config.write_text(f"node.id=1\nlog.dirs={log_dir}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
        assert main(["format", "--config", str(config), *flags]) == 0
        assert read_cluster(log_dir).metadata_version == level
