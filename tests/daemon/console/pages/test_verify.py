"""The page *Verify* shows all that the state file has, and never a zero for what is unknown."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from authorizerd.daemon.console.pages import verify
from authorizerd.daemon.console.pages.verify import ADVICE
from authorizerd.protocol.verification import (
    KIND,
    LATEST_MAX,
    Cause,
    Counts,
    Findings,
    Lag,
    decode_findings,
)
from tests.daemon.console.console_place import VERIFY, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.support.verification import STATE_KEY, parse_with, write_findings

NOW_MS = 1_800_000_000_000
DOCUMENT = Path(__file__).parents[4] / "docs" / "prove.md"


@pytest.fixture(autouse=True)
def _set_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "now_ms", lambda: NOW_MS)


async def shown(folder: Path, **changes: Any) -> str:  # noqa: ANN401 - fields
    """Return the text of the page for findings with these changes, with single blanks."""
    place = ConsolePlace(folder, configuration=parse_with(folder / "state"))
    if changes:
        write_findings(folder / "state", **{"now_ms": NOW_MS, **changes})
    status, page = await place.get(VERIFY, "root")
    assert status == 200
    check_page(page)
    cells = re.sub("<[^>]+>", " ", re.sub("</?(bdi|code|span|strong)[^>]*>", "", page))
    return " ".join(unescape(cells).split())


async def test_everything_in_the_file_is_shown(tmp_path: Path) -> None:
    text = await shown(tmp_path, name="eve")
    for each in (
        "4 decisions of brokers differ", "2 logs were replaced or removed",
        "Agreed 1,000 Agreed, by another ACL that matches 21 Differ 4 Not judged 15",
        "Lines set aside 5 Lines counted, with blank ones 1,045 Logs not read to their end 2"
        " Records deleted unread 1,200", "Kafka deleted 1,200 records of topics",
        "Earliest decision that was judged 1970-01-01T00:00:01.000Z, 20833 days ago",
        "Latest decision that was judged 2027-01-15T07:59:50.123Z, 9 s ago",
        "/copy/eve, up to 5 s before",
        "Bytes not counted yet 99,999 Records of topics not counted yet 5,000"
        " Lines that wait for the ACLs of their time 12",
        "another Kafka release decided 3 Pass the broker's release.",
        "other eve 1 This version of the daemon does not know this cause.",
        "/logs/eve.log:7 2026-11-30T00:00:01.000Z 3 User:eve unknown READ TOPIC eve"
        " allowed: no rule recorded denied: DefaultDeny eve offset 1,042"
        " another Kafka release decided: the detail eve",
        "10.0.0.1 READ TOPIC eve allowed: eve denied", "later 8 before eve 7", "ambiguous 5",
        "Oldest of these lines 2027-01-15T07:59:20.000Z, 40 s ago",
        "ACLs are known until 2027-01-15T07:59:51.000Z, 9 s ago",
        "Logs were last read at 2027-01-15T08:00:00.000Z, 0 s ago",
    ):  # fmt: skip
        assert each in text
    assert "Old figures" not in text


@pytest.mark.parametrize(("changes", "text"), [
    ({"read_ms": NOW_MS - 61_000}, "last read at: 2027-01-15T07:58:59.000Z, 61 s ago."),
    ({"read_ms": NOW_MS + 900_000}, "read at: 2027-01-15T08:15:00.000Z, 15 minutes ahead"),
    ({"read_ms": 0}, "Old figures: the logs were last read at: unknown."),
    ({"counts": Counts()}, "This proves nothing: no decision was judged so far."),
    ({"counts": Counts(disagreements={"unknown": 1})}, "1 decision of a broker differs from"),
    ({"counts": Counts(agreed=7)}, "No difference among the 7 decisions that were judged."),
    ({"counts": Counts(agreed=7)}, "Earliest decision that was judged unknown Latest"),
    ({"lag": Lag(bytes=1)}, "Oldest of these lines unknown ACLs are known until unknown"),
    ({"lag": Lag()}, "Oldest of these lines no line waits"),
])  # fmt: skip
async def test_old_or_incomplete_figures_are_named(
    changes: dict[str, Any], text: str, tmp_path: Path
) -> None:
    assert text in await shown(tmp_path, **changes)


@pytest.mark.parametrize(("data", "reason"), [
    (None, "No such file or directory."),
    (b"", "not a state file, or a damaged one: invalid JSON"),
    (b'{"kind":"other","version":1}', f"expected '{KIND}' version 1, found 'other' version 1."),
    (b'{"kind":"%s","version":2}' % KIND.encode(), f"found '{KIND}' version 2."),
    (b'{"kind":"%s","version":1}' % KIND.encode(), "a damaged one: history is missing."),
    (b'{"kind":"%s","version":1,"history":"","window_ms":1,"read_ms":%d}'
     % (KIND.encode(), 10**30), "not a state file, or a damaged one: "),
    (b" " * 3_000, "expected at most 2,000 bytes, found more."),
])  # fmt: skip
async def test_unreadable_file_is_no_figure(
    data: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "BYTES_MAX", 2_000)
    if data is not None:
        (tmp_path / "state").write_bytes(data)
    text = await shown(tmp_path)
    assert f"Nothing is known: the file of {STATE_KEY} cannot be read" in text
    assert reason in text
    assert "Agreed" not in text
    assert "difference" not in text


async def test_only_the_newest_differences_are_listed(tmp_path: Path) -> None:
    latest = decode_findings(write_findings(tmp_path / "state").read_bytes(), Findings).latest
    assert (await shown(tmp_path, latest=latest * 2)).count("User:eve") == LATEST_MAX


async def test_page_without_the_setting_says_how_to_set_it(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path)
    text = await place.text(VERIFY, "root")
    assert "set authorizerd.console.verify.state to that file" in text
    assert "unknown parameter 'x'" in await place.text(VERIFY, "root", 400, x="y")


async def test_port_that_trusts_everyone_shows_nothing(tmp_path: Path) -> None:
    state = write_findings(tmp_path / "state", "mallory")
    place = ConsolePlace(None, configuration=parse_with(state))
    text = await place.text(VERIFY, "", 403)
    assert "trusts its callers to ask, but not to see how brokers decided about others" in text
    assert "mallory" not in text


def test_every_cause_has_the_advice_of_the_document() -> None:
    table = DOCUMENT.read_text().partition("| cause | what to do |")[2].partition("\n\n")[0]
    rows = [line.replace("`", "").strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert dict(rows) == ADVICE
    assert list(ADVICE) == list(Cause)
