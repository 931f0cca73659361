"""Each locator names one place, and what names none is an error that says what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.cli.transfer.model import Kind, Locator, LocatorError, parse_locator

FORMATS = ("yaml", "listing")


@pytest.mark.parametrize(
    ("text", "kind", "value", "format"),
    [
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
    ],
)
def test_locator_names_one_place(text: str, kind: Kind, value: str, format: str | None) -> None:
    assert parse_locator(text, FORMATS) == Locator(kind, text, value, format)


def test_directory_is_a_log_directory(tmp_path: Path) -> None:
    assert parse_locator(str(tmp_path), FORMATS).kind is Kind.LOG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
    ],
)
def test_text_that_names_no_place_is_an_error(text: str, expected: str) -> None:
    with pytest.raises(LocatorError, match=expected) as raised:
        parse_locator(text, FORMATS)
    assert "secret" not in str(raised.value)


def test_only_a_file_can_be_standard_input() -> None:
    assert parse_locator("-", FORMATS).is_standard
    assert not parse_locator("log:-", FORMATS).is_standard
