"""Sets of ACLs, read from files and from live clusters."""

import argparse
import contextlib
import json
import lzma
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls import reading
from authorizerd.replay.acls.options import add_acl_arguments, read_acl_set
from authorizerd.replay.acls.reading import PROFILE, list_acls, parse_moment, read_acl_source
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.usage.report import named
from tests.support.acls import acl
from tests.support.fixture_types import MonkeyPatch


def newest_checkpoint(log_dir: Path) -> Path:
    return max((log_dir / "__cluster_metadata-0").glob("*.checkpoint"))


def last_client_time(log_dir: Path) -> str:
    with lzma.open(log_dir / "kafka-authorizer.log.xz", "rt", encoding="utf-8") as lines:
        last = [line for line in lines if "Principal = User:admin is" not in line][-1]
    found = re.match(r"\[(.*?)\]", last)
    assert found is not None
    return found[1]


def as_json(acls: AclSet) -> str:
    entries = [to_builtins(named(dated.acl)) for dated in acls.acls]
    return json.dumps({"acls": entries}, ensure_ascii=False)


def test_every_kind_of_source_gives_the_same_1751_acls(
    real_log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = read_acl_source(str(real_log_dir / "acls-list.txt"))
    (tmp_path / "acls.json").write_text(as_json(truth), encoding="utf-8")
    (tmp_path / "acls.YAML").write_text(as_json(truth), encoding="utf-8-sig")
    listing = (real_log_dir / "acls-list.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(reading, "list_acls", lambda *_: listing)
    monkeypatch.chdir(real_log_dir / "__cluster_metadata-0")
    for source in (
        str(real_log_dir),
        str(real_log_dir / "__cluster_metadata-0"),
        ".",
        str(newest_checkpoint(real_log_dir)),
        str(tmp_path / "acls.json"),
        str(tmp_path / "acls.YAML"),
        "kafka://127.0.0.1:9092",
    ):
        found = read_acl_source(source)
        assert (len(found.acls), found.digest) == (1751, truth.digest), source
        assert found.source == source
        assert [dated.acl for dated in found.acls] == [dated.acl for dated in truth.acls]
    assert truth.offset is truth.stamped_ms is None


def test_log_as_of_the_recorded_traffic_has_1616_acls(real_log_dir: Path) -> None:
    found = read_acl_source(str(real_log_dir), as_of=last_client_time(real_log_dir))
    assert len(found.acls) == 1616
    assert found.stamped_ms is not None
    stamped = datetime.fromtimestamp(found.stamped_ms / 1000, UTC)
    assert stamped.isoformat(sep=" ") <= last_client_time(real_log_dir).replace(",", ".")
    assert found.offset is not None
    assert read_acl_source(str(real_log_dir), as_of=str(found.offset)) == found
    now = read_acl_source(str(real_log_dir))
    before, after = ({dated.acl for dated in acls.acls} for acls in (found, now))
    assert (len(after - before), len(before - after)) == (135, 0)


def test_acls_may_be_in_the_file_of_another_tool(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("users: {a: {principal: User:a, roles: [writer]}}")
    (dated,) = read_acl_source(str(tmp_path / "users.yaml")).acls
    assert dated.acl == acl("User:a", "WRITE", topic="*")


def test_repeated_acl_is_read_once_and_super_users_are_sorted(tmp_path: Path) -> None:
    text = (
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, "
        "patternType=LITERAL)`: \n\t(principal=User:a, host=*, operation=READ, "
        "permissionType=ALLOW)\n"
    )
    (tmp_path / "listing").write_text(text + text)
    users = ["User:b", "User:a", "User:b"]
    found = read_acl_source(
        str(tmp_path / "listing"), super_users=users, allow_everyone_if_no_acl_found=True
    )
    assert (len(found.acls), found.super_users) == (1, ("User:a", "User:b"))
    assert found.settings.allow_everyone_if_no_acl_found


@pytest.mark.parametrize(("name", "content", "place", "reason"), [
    ("missing", None, None, "No such file or directory"),
    ("missing.checkpoint", None, None, "no metadata log found"),
    ("", None, None, "no metadata log found"),  # a directory
    ("00000000000000000001-0000000001.checkpoint", b"x" * 99, None, "at byte 0"),
    ("listing.txt", b"\n\nError\n", "line 3", "expected a line of a listing"),
    ("listing.txt", b"ab\xff", "byte 2", "not valid UTF-8"),
    ("acls.json", b"{}", "document", "missing key 'acls'"),
    ("acls.yaml", b"acls:\n- {", "line 3", ""),
    ("acls.yml", b"acls: [1]", "line 1, column 8: acls[0]", "expected a mapping"),
    ("topology.yaml", b"context: c\nplatform: {kafka: {rbac: {a: []}}}\n", None,
     "the file grants what ACLs cannot: platform.kafka.rbac: RBAC has no ACLs in Kafka"),
])  # fmt: skip
def test_fault_is_one_line_with_source_and_place(
    tmp_path: Path, name: str, content: bytes | None, place: str | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AclSourceError) as refused:
        read_acl_source(str(path))
    assert refused.value.place == place
    assert reason in refused.value.reason
    text = str(refused.value)
    assert text.startswith(f"{path}: {'' if place is None else place}")
    assert "\n" not in text
    assert text.count(str(path)) == 1


@pytest.mark.parametrize("source", ["acls.json", "listing", "kafka://a:1", "9.checkpoint"])
def test_as_of_requires_a_log(source: str) -> None:
    with pytest.raises(AclSourceError, match="--as-of requires the directory"):
        read_acl_source(source, as_of="5")


@pytest.mark.parametrize(("as_of", "reason"), [
    ("yesterday", "expected an offset of the log"), ("99999", "the newest one is 3059"),
    ("1999-01-01", "is too old"), ("9999-01-01", "in the future"),
])  # fmt: skip
def test_moment_outside_the_log_is_rejected(real_log_dir: Path, as_of: str, reason: str) -> None:
    with pytest.raises(AclSourceError, match=reason) as refused:
        read_acl_source(str(real_log_dir), as_of=as_of)
    assert refused.value.place == "as of"


@pytest.mark.parametrize(("text", "expected"), [
    ("2632", AsOf(offset=2632)), ("1795278666718", AsOf(time_ms=1_795_278_666_718)),
    ("2026-11-21 18:31:06.718999+02:00", AsOf(time_ms=1_795_278_666_718)),
    ("2026-11-21T16:31:06,718", AsOf(time_ms=1_795_278_666_718)),
    ("2026-11-21", AsOf(time_ms=1_795_219_200_000)), ("20261121", AsOf(offset=20_261_121)),
])  # fmt: skip
def test_moment_without_a_zone_is_in_utc(text: str, expected: AsOf) -> None:
    assert parse_moment(text) == expected


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_an_error(text: str) -> None:
    with contextlib.suppress(InvalidAsOfError):
        parse_moment(text)


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


def test_scheme_alone_is_the_profiles_cluster(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """The command itself reads the profile. A file with credentials turns the profile off."""
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
    assert read_acl_set(parsed, parsed.acls, None).source == f"kafka:// of the profile {profile}"


@pytest.mark.parametrize("source", ["kafka://", "kafka://a:1/x", "kafka://a:1 b", "kafka://u@a:1"])
def test_malformed_address_is_rejected(source: str) -> None:
    with pytest.raises(AclSourceError, match="of the form kafka://HOST:PORT"):
        list_acls(source, None, command=("/no/such/program",))


@pytest.mark.parametrize(("program", "reason"), [
    ("print('Error while executing ACL command: no\\nCaused by: x'); sys.exit(1)", "no"),
    ("print('x', file=sys.stderr); print('y', file=sys.stderr); sys.exit(1)", "x"),
    ("sys.exit(3)", "listing the ACLs failed with exit code 3"),
    ("print('no\\x1b[2J', file=sys.stderr); sys.exit(1)", "no\x1b[2J"),
])  # fmt: skip
def test_failure_is_one_line(tmp_path: Path, program: str, reason: str) -> None:
    with pytest.raises(AclSourceError, match=r"^kafka://a:1: ") as refused:
        list_acls("kafka://a:1", None, command=command(tmp_path, program))
    assert refused.value.reason == reason
    assert str(refused.value).isprintable()


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
