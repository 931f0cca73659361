import re
from pathlib import Path

import pytest

from authorizerd.acl.model import AclAdded
from authorizerd.acl.snapshot import apply_changes
from authorizerd.config.configuration import parse
from authorizerd.daemon.queries.change_authors import AuthorReader
from tests.daemon.console.console_place import ACLS, EXPLAIN, HISTORY, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.support.acls import acl, snapshot_of
from tests.support.audit import written_line
from tests.support.log_files import TIME_MS, acl_id, removed, write_log

QUESTION = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}
HOSTILE = "<script>alert(1)</script>\u202e"


class PastPlace(ConsolePlace):
    """A console over a log: alice may read orders at the offsets 2 and 3, bob from 3 on.

    Args:
        audit_log: has requests that changed ACLs.
    """

    def __init__(
        self, folder: Path, tokens: Path | None = None, audit_log: Path | None = None
    ) -> None:
        log_dir = folder / "log"
        text = "node.id=1\nlog.dirs=/log\n"
        if audit_log is not None:
            text += f"authorizerd.audit.log={audit_log}\n"
        authors = AuthorReader(parse(text, source="test"))
        super().__init__(tokens, log_dir=log_dir, authors=authors)
        alice, bob, other = (
            AclAdded(acl_id(number), acl(f"User:{name}", topic="orders"))
            for number, name in enumerate(("alice", "bob", HOSTILE), 1)
        )
        write_log(log_dir, [alice], [bob, other], [removed(1)])
        newest = snapshot_of(offset=5)
        for each in (bob, other):
            newest = apply_changes(newest, [each])
        self.snapshot.publish(newest)


def answers_of(page: str) -> list[tuple[str, str]]:
    """Return the offset and the answer of each row."""
    return re.findall(
        r'<th scope="row" class="number">(\d+)</th>.*\n<td class="(?:good|bad)">(\w+)', page
    )


@pytest.mark.parametrize(
    ("principal", "since", "answers"),
    [
        ("User:alice", "0", [("0", "denied"), ("2", "allowed"), ("5", "denied")]),
        ("User:bob", "0", [("0", "denied"), ("4", "allowed")]),
        ("User:eve", "0", [("0", "denied")]),
    ],
)
async def test_every_answer_is_shown_with_its_reason(
    principal: str, since: str, answers: list[tuple[str, str]], tmp_path: Path
) -> None:
    fields = QUESTION | {"principal": principal, "as_of": since}
    status, page = await PastPlace(tmp_path).get(HISTORY, **fields)
    text = check_page(page)
    assert status == 200
    assert answers_of(page) == answers
    assert ("The answer has not changed since then." in text) == (len(answers) == 1)
    assert ("removed" in text) == (principal == "User:alice")


async def test_author_of_each_change_is_named(tmp_path: Path) -> None:
    """If the audit log does not name one, it says why. Without audit logs, nothing is said."""
    audit_log = tmp_path / "audit.log"
    audit_log.write_text(written_line(2, f"User:{HOSTILE}", at_ms=TIME_MS, via="User:broker"))
    place = PastPlace(tmp_path, audit_log=audit_log)
    fields = QUESTION | {"principal": "User:alice", "as_of": "0"}
    _, page = await place.get(HISTORY, **fields)
    text = check_page(page)
    assert "<script>alert(1)</script>\\u202e by way of User:broker" in text
    assert "the audit logs begin at" in text
    explained = check_page((await place.get(EXPLAIN, **fields))[1])
    assert "Now it is" not in explained
    explained = check_page((await place.get(EXPLAIN, **fields | {"as_of": "2"}))[1])
    assert "removed by unknown" in explained
    assert "By" not in await PastPlace(tmp_path).text(HISTORY, **fields)


async def test_hostile_name_in_a_history_is_only_text(tmp_path: Path) -> None:
    fields = QUESTION | {"principal": f"User:{HOSTILE}", "as_of": "0"}
    assert "<script>alert(1)</script>\\u202e" in await PastPlace(tmp_path).text(HISTORY, **fields)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"as_of": ""}, "context.as_of: expected the moment at which the history begins"),
        ({"as_of": "99"}, "offset 99 is in the future: the newest one is 5"),
        ({"principal": "x:"}, "principal"),
        ({"x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_invalid_history_is_explained_beside_the_form(
    changed: dict[str, str], reason: str, tmp_path: Path
) -> None:
    fields = QUESTION | {"principal": "User:a", "as_of": "1"} | changed
    assert reason in await PastPlace(tmp_path).text(HISTORY, "", 400, **fields)


async def test_other_pages_show_an_earlier_moment(tmp_path: Path) -> None:
    place = PastPlace(tmp_path, tmp_path)
    _, page = await place.get(ACLS, "root", as_of="2")
    assert "ACLs at log offset 2" in check_page(page)
    assert "User:alice</bdi>" in page
    _, page = await place.get(EXPLAIN, "root", **QUESTION, principal="User:alice", as_of="2")
    text = check_page(page)
    assert "As of offset 2" in text
    assert "Now it is denied." in " ".join(text.split())
    assert "because this ACL was removed" in text
