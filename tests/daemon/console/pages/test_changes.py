"""The page *Changes* shows the numbers of the log as a picture and a table, for those who may."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import describe_note
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.notes import NOTE_PRINCIPAL
from authorizerd.acl.snapshot import apply_changes
from authorizerd.daemon.console.svg import PLOT_HEIGHT
from authorizerd.daemon.queries import changes
from authorizerd.protocol.http.rights import Right
from authorizerd.protocol.records.batch import ControlType
from tests.daemon.console.console_place import CHANGES, ConsolePlace
from tests.daemon.console.page_check import HOSTILE, check_page
from tests.daemon.decision_place import PROXY
from tests.support.acls import acl, snapshot_of
from tests.support.log_files import (
    TIME_MS,
    acl_id,
    control_batch,
    data_batch,
    removed,
    write_segment,
)

HOUR_MS = 3_600_000


class ChangesPlace(ConsolePlace):
    """A console over a log: three ACLs are added, and hours later one is removed."""

    def __init__(
        self, folder: Path, name: str = "alice", hours: int = 5, last: Acl | None = None
    ) -> None:
        super().__init__(folder, log_dir=folder / "log")
        acls = [acl(f"User:{name}", topic=f"{name}-{number}") for number in range(1, 4)]
        if last is not None:
            acls[2] = last
        given = [AclAdded(acl_id(number), each) for number, each in enumerate(acls, 1)]
        write_segment(
            folder / "log",
            0,
            control_batch(0, ControlType.LEADER_CHANGE),
            data_batch(1, given, time_ms=TIME_MS),
            data_batch(4, [removed(2)], time_ms=TIME_MS + hours * HOUR_MS),
        )
        newest = snapshot_of(offset=4)
        for each in (given[0], given[2]):
            newest = apply_changes(newest, [each])
        self.snapshot.publish(newest)


def rows_of(page: str) -> list[tuple[str, int, int]]:
    """Return the link and the numbers of each span in the table."""
    found = re.findall(
        r'<th scope="row" class="time"><a href="([^"]*)">.*?</a></th>'
        r'<td class="number">(.*?)</td><td class="number">(.*?)</td>',
        page,
    )
    return [(unescape(link), int(added), int(gone)) for link, added, gone in found]


def bars_of(page: str) -> list[list[float]]:
    paths = re.findall(r'<path class="mark-\d" d="([^"]*)"', page)
    return [[abs(float(each)) for each in re.findall(r"v(-?[\d.]+)h", path)] for path in paths]


async def test_picture_and_table_have_the_same_numbers(tmp_path: Path) -> None:
    until = str(TIME_MS + 6 * HOUR_MS)
    status, page = await ChangesPlace(tmp_path).get(CHANGES, "root", since="0", until=until)
    text = " ".join(check_page(page).split())
    assert status == 200
    assert "ACLs added: 3, removed: 1" in text
    assert [row[1:] for row in rows_of(page)] == [(0, 1), (3, 0)]
    assert bars_of(page) == [[PLOT_HEIGHT * 3 / 4], [PLOT_HEIGHT / 4]]
    assert text.count("removed User:alice") == 1
    assert text.count("added User:alice") == 3
    assert "unknownno audit log says it31" in text


async def test_span_links_to_its_changes(tmp_path: Path) -> None:
    """Its page has the numbers of the row."""
    place = ChangesPlace(tmp_path)
    _, page = await place.get(CHANGES, "root", since="0", until=str(TIME_MS + 6 * HOUR_MS))
    for link, added, gone in rows_of(page):
        fields = dict(parse_qsl(urlsplit(link).query))
        text = await place.text(CHANGES, "root", 200, **fields)
        assert f"ACLs added: {added}, removed: {gone}" in text
        assert "All changes" in text


async def test_page_without_a_question_shows_the_last_days(tmp_path: Path) -> None:
    """This log is older, so nothing has changed since."""
    text = await ChangesPlace(tmp_path).text(CHANGES, "root")
    assert "No ACL has changed." in text


async def test_cut_answer_links_to_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link of the last span leads to what was counted."""
    monkeypatch.setattr(changes, "CHANGES_MAX", 2)
    place = ChangesPlace(tmp_path, hours=0)
    _, page = await place.get(CHANGES, "root", since="0")
    assert "those after offset 3 are not counted" in check_page(page)
    assert [row[1:] for row in rows_of(page)] == [(3, 0)]
    monkeypatch.undo()
    fields = dict(parse_qsl(urlsplit(rows_of(page)[0][0]).query))
    assert "ACLs added: 3, removed: 0" in await place.text(CHANGES, "root", 200, **fields)
    (link,) = re.findall(r'href="([^"]*)">Continue from there', page)
    fields = dict(parse_qsl(urlsplit(unescape(link)).query))
    assert "ACLs added: 0, removed: 1" in await place.text(CHANGES, "root", 200, **fields)


async def test_note_of_a_grant_is_shown_as_what_it_says(tmp_path: Path) -> None:
    grant = Grant(
        id="g1", acl=acl("User:a", topic="orders"), begin_ms=0, end_ms=TIME_MS, author="User:ops",
        reason="INC-1",
    )  # fmt: skip
    place = ChangesPlace(tmp_path, last=make_grant_note(grant))
    text = await place.text(CHANGES, "root", since="0")
    assert describe_note(make_grant_note(grant)) in text
    assert NOTE_PRINCIPAL not in text


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_name_is_only_text(name: str, tmp_path: Path) -> None:
    await ChangesPlace(tmp_path, name).text(CHANGES, "root", 200, since="0")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"since": "x"}, "since: expected an offset of the log"),
        ({"until": "<b>"}, "until: expected an offset of the log"),
        ({"since": "99"}, "offset 99 is in the future: the newest one is 4"),
        ({"since": "4", "until": "1"}, "offset 1 is before offset 4"),
        ({"x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_invalid_question_is_explained(
    fields: dict[str, str], reason: str, tmp_path: Path
) -> None:
    assert reason in await ChangesPlace(tmp_path).text(CHANGES, "root", 400, **fields)


async def test_changes_need_the_right_to_read(tmp_path: Path) -> None:
    place = ChangesPlace(tmp_path)
    text = await place.text(CHANGES, "other", 403)
    assert Right.READ.key in text
    assert "ACLs added" not in text


async def test_right_that_is_lost_meanwhile_shows_nothing(tmp_path: Path) -> None:
    place = ChangesPlace(tmp_path)
    place.grant(read=PROXY)
    assert "ACLs added: 3" in await place.text(CHANGES, "proxy", 200, since="0")
    place.queries.on_ask = place.grant
    text = await place.text(CHANGES, "proxy", 403, since="0")
    assert "ACLs added" not in text
