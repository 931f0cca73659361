from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.acls.live import PROFILE, list_acls
from authorizerd.replay.acls.options import add_acl_arguments, read_acl_set
from tests.support.fixture_types import MonkeyPatch


def command(tmp_path: Path, program: str) -> tuple[str, ...]:
    path = tmp_path / "command.py"
    path.write_text(f"import sys\n{program}\n")
    return (sys.executable, str(path))


def test_listing_is_the_output_of_the_command(tmp_path: Path) -> None:
    listing = list_acls(
        "kafka://[::1]:9092,b:9093",
        tmp_path / "client.properties",
        command=command(tmp_path, "print('ü', sys.argv[1:])"),
    )
    assert listing == (
        "ü ['--bootstrap-server', '[::1]:9092,b:9093', '--list', '--command-config', "
        f"'{tmp_path}/client.properties']\n"
    )


def test_scheme_alone_is_the_cluster_of_the_profile(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """The command itself reads the profile. A file for the log-in turns the profile off."""
    program = command(tmp_path, "print(sys.argv[1:])")
    monkeypatch.setenv(PROFILE, "prod")
    assert list_acls("kafka://", None, command=program) == "['--list']\n"
    with pytest.raises(AclSourceError, match="of the form kafka://HOST:PORT"):
        list_acls("kafka://", tmp_path / "client.properties", command=program)


def test_source_without_acls_is_the_profile(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    profile = tmp_path / "none.properties"
    monkeypatch.setenv(PROFILE, str(profile))
    parser = argparse.ArgumentParser()
    add_acl_arguments(parser)
    parsed = parser.parse_args([])
    with pytest.raises(AclSourceError, match=f"^kafka://: .*{profile}: No such file or directory"):
        read_acl_set(parsed, parsed.acls, None)
    monkeypatch.setattr("authorizerd.replay.acls.reading.list_acls", lambda *_: "")
    found = read_acl_set(parsed, parsed.acls, None)
    assert found.source == f"kafka:// of the profile {profile}"


@pytest.mark.parametrize("source", ["kafka://", "kafka://a:1/x", "kafka://a:1 b", "kafka://u@a:1"])
def test_malformed_address_is_rejected(source: str) -> None:
    with pytest.raises(AclSourceError, match="of the form kafka://HOST:PORT"):
        list_acls(source, None, command=("/no/such/program",))


@pytest.mark.parametrize(("program", "reason"), [
    ("print('Error while executing ACL command: no\\nCaused by: x'); sys.exit(1)", "no"),
    ("print('x', file=sys.stderr); print('y', file=sys.stderr); sys.exit(1)", "x"),
    ("sys.exit(3)", "listing the ACLs failed with exit code 3"),
])  # fmt: skip
def test_failure_is_one_line(tmp_path: Path, program: str, reason: str) -> None:
    with pytest.raises(AclSourceError, match=r"^kafka://a:1: ") as refused:
        list_acls("kafka://a:1", None, command=command(tmp_path, program))
    assert refused.value.reason == reason


def test_folder_named_authorizerd_is_not_imported(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    planted = tmp_path / "authorizerd"
    (planted / "cli").mkdir(parents=True)
    (planted / "__init__.py").touch()
    (planted / "cli" / "__init__.py").touch()
    (planted / "cli" / "main.py").write_text("print('planted')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with pytest.raises(AclSourceError, match="KafkaAdminClient"):
        list_acls("kafka://noport", None)
