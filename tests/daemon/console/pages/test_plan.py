from pathlib import Path

import pytest

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.audit.format import format_kafka
from authorizerd.management.formats.listing import write
from tests.daemon.console.console_place import PLAN, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.daemon.decision_place import OTHER, PROXY, cluster_action
from tests.support.acls import acl

HOSTILE = "<script>alert(1)</script>"
SET = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:alice", "WRITE", topic="status"),
    acl("User:bob", "READ", topic="orders"),
    cluster_action(PROXY),
    acl(PROXY, "DESCRIBE", cluster=True),
)


def configuration_of(folder: Path, *more: str) -> Configuration:
    lines = ("node.id=1", "log.dirs=/log", f"authorizerd.audit.log={folder / 'audit.log'}", *more)
    return parse("\n".join(lines), source="test")


def write_audit(folder: Path, *requests: tuple[str, str, str, bool]) -> None:
    """Write an audit log of requests: a principal, an operation, a topic, and the answer."""
    lines = b""
    for principal, operation, topic, allowed in requests:
        question = Question(
            f"User:{principal}", "10.0.0.1", Operation[operation], ResourceType.TOPIC, topic
        )
        decision = Decision(allowed, NamedRule("DefaultDeny"))
        lines += format_kafka(AuditEvent(1e9, AuditLevel.INFO, question, decision, "Fetch", 1))
        lines += b"\n"
    (folder / "audit.log").write_bytes(lines)


@pytest.fixture
async def place(tmp_path: Path) -> ConsolePlace:
    write_audit(
        tmp_path,
        ("alice", "WRITE", "status", True),
        ("alice", "READ", "orders", True),
        ("bob", "READ", "orders", True),
        ("alice", "READ", "payments", False),
        ("alice", "READ", "payments", False),
        (HOSTILE, "READ", "payments", False),
    )
    return ConsolePlace(tmp_path, *SET, configuration=configuration_of(tmp_path))


async def test_added_candidates_allow_recorded_requests(place: ConsolePlace) -> None:
    before = place.snapshot.newest
    new = acl("User:alice", "READ", topic="payments")
    text = write([new, SET[0], acl(f"User:{HOSTILE}", "READ", topic="payments")]).text
    text = await place.submitted(PLAN, "root", mode="add", acls=text)
    shown = " ".join(text.split())
    assert "To add: 2. To remove: 0. Compared with the ACLs of 2 principals" in shown
    assert "6 requests at the end of the audit log, of which 3 were allowed." in shown
    assert "Newly denied: 0" in shown
    assert "Newly allowed: 2" in shown
    assert f"User:{HOSTILE}" in shown
    assert place.snapshot.newest is before


async def test_replaced_acls_deny_recorded_requests(place: ConsolePlace) -> None:
    """Other principals keep theirs."""
    text = write([SET[0]]).text
    status, page = await place.submit(PLAN, "root", mode="replace", acls=text)
    shown = " ".join(check_page(page).split())
    assert status == 200
    assert "To add: 0. To remove: 1. Compared with the ACLs of 1 principals" in shown
    assert "Newly denied: 1" in shown
    row = page.partition('id="denied"')[2].partition("</tbody>")[0]
    assert "User:alice" in row
    assert "status" in row
    assert 'value="replace" checked' in page


async def test_candidates_in_force_change_nothing(place: ConsolePlace) -> None:
    text = await place.submitted(PLAN, "root", mode="replace", acls=write(SET).text)
    assert "To add: 0. To remove: 0." in text


async def test_right_to_read_is_necessary(place: ConsolePlace) -> None:
    place.grant(ask=PROXY, search=PROXY, read=OTHER)
    text = await place.submitted(PLAN, "proxy", 403, mode="add", acls=write(SET).text)
    assert "authorizerd.callers.read does not list it" in text
    assert "To add" not in text
    assert (await place.submit(PLAN, "other", mode="add", acls=write(SET).text))[0] == 200


async def test_port_that_trusts_everyone_compares_nothing(tmp_path: Path) -> None:
    status, _ = await ConsolePlace(None, *SET).submit(PLAN, mode="add", acls=write(SET).text)
    assert status == 403


async def test_form_is_shown_first(place: ConsolePlace) -> None:
    status, page = await place.get(PLAN, "root")
    assert status == 200
    assert '<textarea id="acls"' in page
    assert "To add" not in page


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"mode": "add", "acls": "</textarea><script>"}, "the candidates: line 1"),
        ({"mode": "all", "acls": ""}, "mode: expected one of add, replace"),
        ({"mode": "add", "acls": ""}, "expected at least one ACL"),
        ({"x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_invalid_form_is_explained(
    fields: dict[str, str], reason: str, place: ConsolePlace
) -> None:
    assert reason in await place.submitted(PLAN, "root", 400, **fields)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("authorizerd.audit.log=stderr", "Set authorizerd.audit.log to a file"),
        ("authorizerd.audit.log=/none/audit.log", "No such file"),
        ("authorizerd.audit.mask.principal=cut", "masks names"),
    ],
)
async def test_page_says_why_it_judges_nothing(setting: str, reason: str, tmp_path: Path) -> None:
    write_audit(tmp_path)
    place = ConsolePlace(tmp_path, *SET, configuration=configuration_of(tmp_path, setting))
    assert reason in await place.submitted(PLAN, "root", mode="add", acls=write(SET).text)


async def test_page_says_that_allowed_requests_are_not_recorded(tmp_path: Path) -> None:
    write_audit(tmp_path, ("alice", "READ", "payments", False))
    place = ConsolePlace(tmp_path, *SET, configuration=configuration_of(tmp_path))
    text = await place.submitted(PLAN, "root", mode="add", acls=write(SET).text)
    assert "newly denied ones may be missing" in text
