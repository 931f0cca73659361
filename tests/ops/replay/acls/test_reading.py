from __future__ import annotations

import contextlib
import json
import lzma
import re
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
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.acls.reading import parse_moment, read_acl_source
from authorizerd.replay.usage.report import named
from tests.support.acls import acl


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
    by_offset = read_acl_source(str(real_log_dir), as_of=str(found.offset))
    assert by_offset == found
    now = read_acl_source(str(real_log_dir))
    before, after = ({dated.acl for dated in acls.acls} for acls in (found, now))
    assert (len(after - before), len(before - after)) == (135, 0)


def test_super_users_are_sorted(real_log_dir: Path) -> None:
    users = ["User:b", "User:a", "User:b"]
    found = read_acl_source(
        str(real_log_dir), super_users=users, allow_everyone_if_no_acl_found=True
    )
    assert found.super_users == ("User:a", "User:b")
    assert found.settings.allow_everyone_if_no_acl_found


def test_acls_may_be_in_the_file_of_another_tool(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("users: {a: {principal: User:a, roles: [writer]}}")
    (dated,) = read_acl_source(str(tmp_path / "users.yaml")).acls
    assert dated.acl == acl("User:a", "WRITE", topic="*")


def test_repeated_acl_is_read_once(tmp_path: Path) -> None:
    text = (
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, "
        "patternType=LITERAL)`: \n\t(principal=User:a, host=*, operation=READ, "
        "permissionType=ALLOW)\n"
    )
    (tmp_path / "listing").write_text(text + text)
    assert len(read_acl_source(str(tmp_path / "listing")).acls) == 1


@pytest.mark.parametrize(("name", "content", "place", "reason"), [
    ("missing", None, None, "No such file or directory"),
    ("missing.checkpoint", None, None, "no metadata log found"),
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


def test_directory_without_a_log_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(AclSourceError) as refused:
        read_acl_source(str(tmp_path))
    assert str(refused.value).startswith(f"{tmp_path}: no metadata log found")


def test_failed_listing_is_an_error_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, _: object) -> str:
        raise AclSourceError(source, "no\x1b[2J")

    monkeypatch.setattr(reading, "list_acls", fail)
    with pytest.raises(AclSourceError) as refused:
        read_acl_source("kafka://a:1")
    assert str(refused.value) == "kafka://a:1: no\\x1b[2J"


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
