"""The pages *Matrix*, *Reach* and *Risks* show their rows, and what their figures do not cover."""

import re
from html import unescape
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.queries.matrix import ROWS_MAX
from tests.daemon.console.console_place import CONFIGURATION, MATRIX, REACH, RISKS, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.daemon.decision_place import PROXY
from tests.support.acls import acl
from tests.support.usage import USAGE_KEY, write_usage

PAGES = {MATRIX: {}, REACH: {"principal": "User:alice"}, RISKS: {}}
ACLS = (
    acl("User:alice", "READ", topic="orders.", pattern="PREFIXED"),
    acl("User:alice", "ALL", topic="orders.", pattern="PREFIXED", deny=True, host="10.0.0.9"),
    acl("User:bob", "WRITE", topic="orders.us", host="10.0.0.1"),
    acl("User:*", "READ", topic="public"),
)


def configuration_of(usage_file: Path) -> Configuration:
    return parse(f"node.id=1\nlog.dirs=/log\n{USAGE_KEY}={usage_file}\n", source="test")


async def shown(place: ConsolePlace, path: str, **fields: str) -> str:
    """Return the text of a page, with a single blank between texts."""
    status, page = await place.get(path, "root", **fields)
    assert status == 200, page
    check_page(page)
    texts = re.sub("<[^>]+>", " ", re.sub("</?(bdi|code|strong|a)( [^>]*)?>", "", page))
    return " ".join(unescape(texts).split())


async def test_matrix_is_a_picture_and_a_table(tmp_path: Path) -> None:
    text = await shown(ConsolePlace(tmp_path, *ACLS), MATRIX)
    assert "any topic orders… public… User:* R R User:alice RD RD R User:bob RW W R" in text
    assert text.endswith(
        "Principal any topic orders… public… User:* R R User:alice RD RD R User:bob RW W R"
    )
    assert "2 principals with ACLs for topics" in text
    assert "1 super user may do everything" in text


async def test_matrix_links_to_the_next_part_and_to_the_reach(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *ACLS)
    _, page = await place.get(MATRIX, "root", principal="alice")
    assert 'href="/console/matrix?principal=alice&amp;topic=orders"' in page
    assert 'href="/console/reach?principal=User%3Aalice"' in page
    assert "User:bob" not in page
    many = [acl(f"User:team{n}-{m}", "READ", topic="t") for n in range(ROWS_MAX) for m in (1, 2)]
    _, page = await ConsolePlace(tmp_path, *many).get(MATRIX, "root", topic="t")
    assert 'href="/console/matrix?topic=t&amp;principal=User%3Ateam0"' in page


async def test_reach_is_a_picture_and_a_table(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *ACLS)
    text = await shown(place, REACH, principal="alice")
    assert "What ACLs allow User:alice" in text
    assert "READ DESCRIBE TOPIC orders.… some some TOPIC public all all" in text
    assert "TOPIC orders.… 1 READ, DESCRIBE from any host except 10.0.0.9 0 no" in text
    assert "TOPIC public 1 READ, DESCRIBE from any host 0 READ, DESCRIBE" in text
    assert "Logged in as User:root" in text
    assert "a super user" not in text
    assert "super user, so it may do everything" in await shown(place, REACH, principal="User:root")
    assert "What ACLs allow" not in await shown(place, REACH)


async def test_open_resources_are_said_to_be_open(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *ACLS)
    place.authorizer.configure(
        {"allow.everyone.if.no.acl.found": "true", "super.users": "User:root"}
    )
    for path, fields in PAGES.items():
        assert "allow.everyone.if.no.acl.found is true" in await shown(place, path, **fields)


async def test_risks_are_counted_and_listed(tmp_path: Path) -> None:
    text = await shown(ConsolePlace(tmp_path, *ACLS), RISKS)
    assert "2 of 4 ACLs" in text
    assert "allowed to everyone 1 1 high" in text
    assert "DENY with little effect 1 1 medium" in text
    assert "high allowed to everyone User:* ALLOW READ TOPIC public any (*)" in text
    assert "The use of ACLs is not known. To see which grants had no use" in text
    text = await shown(ConsolePlace(tmp_path, *ACLS), RISKS, kind="DENY with little effect")
    assert "Rows: 1." in text
    assert "Refused: kind: expected one of" in await ConsolePlace(tmp_path).text(
        RISKS, "root", 400, kind="x"
    )


async def test_unused_grants_are_those_of_the_file(tmp_path: Path) -> None:
    file = write_usage(tmp_path / "usage.json", used=[ACLS[3]], unused=ACLS[:2])
    place = ConsolePlace(tmp_path, *ACLS, configuration=configuration_of(file))
    text = await shown(place, RISKS)
    assert "Use is known from 2026-08-01T00:00:00.000Z to 2026-11-29T23:59:58.000Z." in text
    assert "no recorded use 1 1 medium" in text
    assert "medium no recorded use User:alice ALLOW READ TOPIC (prefix) orders." in text
    file.unlink()
    text = await shown(place, RISKS)
    assert "The use of ACLs is not known: the file of authorizerd.console.usage.file" in text
    assert "no recorded use 1" not in text


@pytest.mark.parametrize("path", PAGES)
async def test_no_acls_and_an_unknown_principal_are_shown(path: str, tmp_path: Path) -> None:
    text = await shown(ConsolePlace(tmp_path), path, **PAGES[path])
    expected = {
        MATRIX: "No ACL for topics has such a principal",
        REACH: "Nothing: no ACL allows this principal anything.",
        RISKS: "0 of 0 ACLs",
    }
    assert expected[path] in text


@pytest.mark.parametrize("path", PAGES)
async def test_visits_need_the_right_and_are_audited(path: str, tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *ACLS)
    name = path.removeprefix("/console/").capitalize()
    text = await place.text(path, "proxy", 403, **PAGES[path])
    assert "authorizerd.callers.read" in text
    assert "orders" not in text
    place.grant(read=PROXY)
    await place.text(path, "proxy", **PAGES[path])
    events = [each for each in place.audit_log.events if each.request_name == name]
    assert [(each.question.principal, each.decision.allowed) for each in events] == [
        (PROXY, False), (PROXY, True),
    ]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
async def test_right_that_is_lost_meanwhile_shows_nothing(path: str, tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *ACLS)
    place.grant(read=PROXY)
    place.queries.on_ask = place.grant
    assert "orders" not in await place.text(path, "proxy", 403, **PAGES[path])


@pytest.mark.parametrize("path", PAGES)
async def test_port_without_logins_shows_no_acls(path: str) -> None:
    text = await ConsolePlace(None, *ACLS).text(path, "", 403, **PAGES[path])
    assert "orders" not in text


@pytest.mark.parametrize("path", PAGES)
async def test_unknown_field_is_refused(path: str, tmp_path: Path) -> None:
    assert "unknown" in await ConsolePlace(tmp_path).text(path, "root", 400, other="x")


def many_acls(count: int) -> list[Acl]:
    return [acl(f"User:u{n}-{n}", "ALL", topic=f"t{n}.x") for n in range(count)]


@pytest.mark.parametrize("path", PAGES)
async def test_huge_answers_have_bounded_pages(path: str, tmp_path: Path) -> None:
    acls = [*many_acls(2_000), *(acl("User:alice", "READ", topic=f"a{n}") for n in range(2_000))]
    place = ConsolePlace(tmp_path, *acls, configuration=CONFIGURATION)
    _, page = await place.get(path, "root", **PAGES[path])
    assert page.count("<tr>") <= 210
    assert len(page) < 200_000
