"""The table of risks names risky ACLs and unused grants; what is not recorded is not known."""

import os
from pathlib import Path

import pytest

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import Note, make_note
from authorizerd.daemon.queries import risk_table
from authorizerd.daemon.queries.risk_table import RISK_COLUMNS, UNUSED_KIND, RiskTable, list_risks
from authorizerd.protocol.queries import RisksQuestion
from authorizerd.protocol.usage import UsageWindow
from authorizerd.protocol.views import TableView
from tests.support.acls import acl, snapshot_of
from tests.support.usage import BEGIN, END, write_usage

RISKY = acl("User:*", "WRITE", topic="orders")
WORST = acl("User:a", "ALL", topic="*")
PLAIN = acl("User:a", "READ", topic="plain.", pattern="PREFIXED")
YOUNG = acl("User:b", "READ", topic="t")
DENY = acl("User:b", "WRITE", topic="t", deny=True)
NOTE = make_note(Note("x", {"a": "b"}))
ALL_ACLS = (RISKY, WORST, PLAIN, YOUNG, DENY, NOTE)


def ask(
    usage_file: Path | None = None,
    kind: str = "",
    search: str = "",
    page: int = 1,
    acls: tuple[Acl, ...] = ALL_ACLS,
) -> RiskTable:
    file = None if usage_file is None else str(usage_file)
    view = TableView(search, 0, False, page)
    return list_risks(RisksQuestion(kind, file, view, AuthorizerSettings()), snapshot_of(*acls))


def rows_of(found: RiskTable) -> list[dict[str, str]]:
    return [dict(zip(RISK_COLUMNS, row, strict=True)) for row in found.page.rows]


def test_every_risk_is_a_row() -> None:
    found = ask()
    assert [
        (each["level"], each["risk"], each["allows"], each["used"]) for each in rows_of(found)
    ] == [
        ("high", "allowed to everyone", "ALLOW WRITE TOPIC", "not known"),
        ("high", "every name", "ALLOW ALL TOPIC", "not known"),
        ("medium", "all operations", "ALLOW ALL TOPIC", "not known"),
    ]
    assert found.counts == {
        "allowed to everyone": {"high": 1}, "every name": {"high": 1},
        "all operations": {"medium": 1},
    }  # fmt: skip
    assert (found.acls, found.total, found.window, found.problem) == (2, len(ALL_ACLS), None, "")


def test_kind_and_search_choose_rows_and_change_no_count() -> None:
    chosen = ask(kind="every name")
    assert [each["risk"] for each in rows_of(chosen)] == ["every name"]
    assert (chosen.counts, chosen.page.total) == (ask().counts, 1)
    assert [each["principal"] for each in rows_of(ask(search="orders"))] == ["User:*"]
    assert rows_of(ask(page=2)) == []


def test_only_grants_that_the_file_names_are_unused(tmp_path: Path) -> None:
    """A DENY without use may still be needed, and a note is no grant."""
    file = write_usage(tmp_path / "usage.json", used=[RISKY], unused=[PLAIN, WORST, DENY, NOTE])
    found = ask(file)
    uses = [(each["risk"], each["principal"], each["used"]) for each in rows_of(found)]
    assert uses == [
        ("allowed to everyone", "User:*", "2026-11-20"),
        ("every name", "User:a", "none recorded"),
        ("all operations", "User:a", "none recorded"),
        (UNUSED_KIND, "User:a", "none recorded"),
        (UNUSED_KIND, "User:a", "none recorded"),
    ]
    assert rows_of(found)[-1]["allows"] == "ALLOW READ TOPIC (prefix)"
    assert found.window == UsageWindow(BEGIN, END)
    assert found.acls == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not a usage.json: invalid JSON: the body ends before the document does"),
        ("{}", "not a usage.json: "),
        ('{"window":{"allowed_first_at":"a","allowed_last_at":"b"},"used":[{}],"unused":[]}',
         "not a usage.json: "),
        ('{"window":{"allowed_first_at":"a","allowed_last_at":"b"},"used":[],"unused":[{"acl":1}]}',
         "not a usage.json: "),
        (" " * 2_000, "expected at most 1,000 bytes, found more"),
        (None, "No such file or directory"),
    ],
)  # fmt: skip
def test_file_that_cannot_be_read_leaves_the_use_unknown(
    content: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risk_table, "USAGE_BYTES_MAX", 1_000)
    file = tmp_path / "usage.json"
    if content is not None:
        file.write_text(content)
    found = ask(file)
    assert found.problem.startswith(problem)
    assert found.window is None
    assert {each["used"] for each in rows_of(found)} == {"not known"}


def test_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert ask(tmp_path / "pipe").problem


def test_no_acls_give_an_empty_table() -> None:
    found = ask(acls=())
    assert (rows_of(found), found.counts, found.acls, found.total) == ([], {}, 0, 0)
