"""A locator names one place. A file is written whole or not at all, and read back first."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl
from authorizerd.cli.errors import CommandError
from authorizerd.cli.transfer.model import (
    AclsFound,
    Draft,
    Kind,
    Locator,
    LocatorError,
    parse_locator,
)
from authorizerd.cli.transfer.text_place import TextSource, TextTarget
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Format, Loss
from authorizerd.metadata.storage import Storage
from tests.end_to_end.example_daemon import Ports, link_environment
from tests.end_to_end.page_shell import Shell, run_page
from tests.support.acls import acl
from tests.support.log_files import added, write_log
from tests.support.recording_storage import RecordingStorage
from tests.support.strategies import acls, any_acls

FIRST = acl("User:a", topic="t")
SECOND = acl("User:b", "WRITE", topic="t", deny=True)


def locator(path: Path, format: str | None = None) -> Locator:
    return Locator(Kind.FILE, str(path), str(path), format)


def write(
    path: Path, *acls: Acl, overwrite: bool = False, storage: Storage | None = None,
    format: Format = FORMATS["yaml"],
) -> Draft:  # fmt: skip
    target = TextTarget(locator(path), format, overwrite=overwrite, storage=storage)
    found = AclsFound(acls)
    with target.open() as opened:
        draft = opened.draft(found)
        opened.write(draft, found)
    return draft


def read(path: Path, format: str | None = None) -> AclsFound:
    return TextSource(locator(path), format).read()


def test_file_is_kept_unless_overwrite_is_given(tmp_path: Path) -> None:
    path = tmp_path / "acls.yaml"
    write(path, FIRST)
    with pytest.raises(CommandError, match=r"the file exists and was kept: use --overwrite"):
        write(path, SECOND)
    assert read(path).acls == (FIRST,)
    write(path, SECOND, overwrite=True)
    assert read(path).acls == (SECOND,)


@pytest.mark.parametrize("call", ["append_to", "append", "sync", "rename"])
def test_full_disk_keeps_the_earlier_file(call: str, tmp_path: Path) -> None:
    path = tmp_path / "acls.yaml"
    write(path, FIRST)
    failing = RecordingStorage(call, number=errno.ENOSPC)
    with pytest.raises(CommandError, match=r"acls\.yaml: not written: No space left on device"):
        write(path, SECOND, overwrite=True, storage=failing)
    assert read(path).acls == (FIRST,)
    assert os.listdir(tmp_path) == ["acls.yaml"]


def test_half_of_an_earlier_write_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "acls.yaml.part").write_text("acls: [")
    write(tmp_path / "acls.yaml", FIRST)
    assert read(tmp_path / "acls.yaml").acls == (FIRST,)
    assert os.listdir(tmp_path) == ["acls.yaml"]


def test_overwritten_file_keeps_its_permissions_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "acls.yaml", tmp_path / "link.yaml"
    write(path, FIRST)
    path.chmod(0o600)
    link.symlink_to(path)
    write(link, SECOND, overwrite=True)
    assert link.is_symlink()
    assert read(path).acls == (SECOND,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CommandError, match="expected a file or nothing, found something else"):
        write(tmp_path / "fifo", FIRST, overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not written: No such file or directory"):
        write(tmp_path / "none" / "acls.yaml", FIRST)


def new_format(text: str, back: Sequence[Acl] | AclTextError, *losses: Loss) -> Format:
    """Return a format that writes ``text``, and reads ``back`` from any text."""

    def read(_: str) -> AclsRead:
        if isinstance(back, AclTextError):
            raise back
        return AclsRead(tuple(back))

    return Format("odd", "", read, lambda acls: AclsWritten(text, losses))


def test_acl_that_is_not_read_back_is_a_loss(tmp_path: Path) -> None:
    draft = write(tmp_path / "acls", FIRST, SECOND, format=new_format("x", [FIRST]))
    assert draft.losses == (Loss(SECOND, "odd does not reproduce it"),)
    assert draft.new == (FIRST,)


def test_loss_that_the_format_names_is_named_once(tmp_path: Path) -> None:
    loss = Loss(SECOND, "odd")
    draft = write(tmp_path / "acls", FIRST, SECOND, format=new_format("x", [FIRST], loss))
    assert draft.losses == (loss,)


@pytest.mark.parametrize(("back", "expected"), [
    ((FIRST, SECOND), "the text would grant or deny something else, and was not written: Sta"),
    (AclTextError("line 1", "no"), "cannot be read back, and was not written: line 1: no"),
])  # fmt: skip
def test_text_that_says_something_else_is_not_written(
    back: Sequence[Acl] | AclTextError, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match=expected):
        write(tmp_path / "acls", FIRST, format=new_format("x", back))
    assert not (tmp_path / "acls").exists()


def test_order_of_a_source_does_not_change_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", FIRST, SECOND)
    write(tmp_path / "b.yaml", SECOND, FIRST)
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()


@pytest.mark.parametrize(("data", "expected"), [
    (b"\xff", r"acls: byte 0: not valid UTF-8"),
    (b"acls: [", r"acls: line 2: did not find"),
    (b"Current\n", r"acls: line 1: expected a line of a listing"),
])  # fmt: skip
def test_unreadable_text_is_an_error_that_names_its_place(
    data: bytes, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "acls").write_bytes(data)
    with pytest.raises(CommandError, match=expected):
        read(tmp_path / "acls")


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="none: No such file or directory"):
        read(tmp_path / "none")
    with pytest.raises(CommandError, match="Is a directory"):
        read(tmp_path)


@pytest.mark.parametrize("name", FORMATS)
@given(acls=st.lists(acls(unknown_codes=True) | any_acls, max_size=6, unique=True))
def test_each_format_names_what_it_does_not_give_back(name: str, acls: list[Acl]) -> None:
    """Whatever the names and codes are, its text also says nothing else."""
    with TextTarget(locator(Path("-")), FORMATS[name]).open() as opened:
        draft = opened.draft(AclsFound(tuple(acls)))
    assert not any("does not reproduce it" in loss.reason for loss in draft.losses)
    assert {*draft.new, *(loss.acl for loss in draft.losses)} >= {*acls}


FORMAT_NAMES = ("yaml", "listing")


@pytest.mark.parametrize(("text", "kind", "value", "format"), [
    ("kafka://a:9092", Kind.CLUSTER, "a:9092", None),
    ("KAFKA://a:9092,[::1]:9093/", Kind.CLUSTER, "a:9092,[::1]:9093", None),
    ("zookeeper://a:2181,b:2181/kafka", Kind.ZOOKEEPER, "a:2181,b:2181/kafka", None),
    ("yaml:acls", Kind.FILE, "acls", "yaml"),
    ("yaml:-", Kind.FILE, "-", "yaml"),
    ("listing:C:/acls", Kind.FILE, "C:/acls", "listing"),
    ("-", Kind.FILE, "-", None),
    ("acls.yaml", Kind.FILE, "acls.yaml", None),
    ("./yaml:acls", Kind.FILE, "./yaml:acls", None),
    ("other:acls", Kind.FILE, "other:acls", None),
    ("./kafka:/a:1", Kind.FILE, "./kafka:/a:1", None),
    ("new/", Kind.LOG, "new/", None),
    ("log:new", Kind.LOG, "new", None),
    ("x/1.checkpoint", Kind.CHECKPOINT, "x/1.checkpoint", None),
    ("checkpoint:x", Kind.CHECKPOINT, "x", None),
    ("yaml:1.checkpoint", Kind.FILE, "1.checkpoint", "yaml"),
])  # fmt: skip
def test_locator_names_one_place(text: str, kind: Kind, value: str, format: str | None) -> None:
    assert parse_locator(text, FORMAT_NAMES) == Locator(kind, text, value, format)


def test_directory_is_a_log_directory(tmp_path: Path) -> None:
    assert parse_locator(str(tmp_path), FORMAT_NAMES).kind is Kind.LOG


@pytest.mark.parametrize(("text", "expected"), [
    ("", "found an empty text"),
    ("http://a:1", "unknown scheme 'http': expected kafka://HOST:PORT"),
    ("kafka://", "expected HOST:PORT after kafka://"),
    ("kafka:///", "expected HOST:PORT after kafka://"),
    (
        "kafka://user:secret@a:1",
        "credentials and TLS settings belong in the file of --command-config",
    ),
    ("kafka://a:1/path", "expected kafka://HOST:PORT"),
    ("kafka:/a:1", "expected kafka://HOST:PORT, with two slashes"),
    ("Zookeeper:/user:secret@a:1", "expected zookeeper://HOST:PORT, with two slashes"),
    ("kafka:a:1", "expected kafka://HOST:PORT, with two slashes"),
    ("yaml:", "expected a path after yaml:"),
    ("log:", "expected a path after log:"),
])  # fmt: skip
def test_text_that_names_no_place_is_an_error(text: str, expected: str) -> None:
    with pytest.raises(LocatorError, match=expected) as raised:
        parse_locator(text, FORMAT_NAMES)
    assert "secret" not in str(raised.value)


def test_only_a_file_can_be_standard_input() -> None:
    assert parse_locator("-", FORMAT_NAMES).is_standard
    assert not parse_locator("log:-", FORMAT_NAMES).is_standard


LATER_OPERATION = 99


def test_lost_deny_is_printed_as_the_page_shows(tmp_path: Path) -> None:
    newer = acl("User:a", LATER_OPERATION, topic="orders", deny=True)
    write_log(tmp_path / "newer", [added(1, newer), added(2)])
    link_environment(tmp_path)
    with Shell(tmp_path) as shell:
        run_page("import-export.md", "tests/cli/transfer/test_text_place.py", shell, Ports())
    assert not (tmp_path / "acls.yaml").exists()


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_a_grant_is_written_with_its_note_or_not_at_all(format: Format, tmp_path: Path) -> None:
    grant = Grant(
        id="1", acl=acl("User:alice", "READ", topic="t"), begin_ms=10**12, end_ms=2 * 10**12,
        author="User:ops", reason="INC-1: a, b",
    )  # fmt: skip
    other, note = acl("User:bob", "READ", topic="t"), make_grant_note(grant)
    target = TextTarget(Locator(Kind.FILE, "x", str(tmp_path / "x")), format)
    with target.open() as opened:
        draft = opened.draft(AclsFound((grant.acl, other, note)))
        opened.write(draft, AclsFound(()))
    back = set(format.read((tmp_path / "x").read_text()).acls)
    assert other in back
    assert back in ({other}, {other, grant.acl, note})
    assert back == set(draft.new)
    lost = [loss.acl for loss in draft.losses]
    assert sorted(map(str, lost)) == sorted(map(str, {other, grant.acl, note} - back))
