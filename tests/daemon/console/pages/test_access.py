from __future__ import annotations

import json
from pathlib import Path

import pytest

from authorizerd.daemon.console import tables
from authorizerd.daemon.console.pages import access
from tests.daemon.console.console_place import WHAT, WHO, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.support.acls import acl

SET = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:bob", "ALL", topic="ord", pattern="PREFIXED"),
    acl("User:*", "READ", topic="open"),
    acl("User:eve", "ALL", topic="open", deny=True),
    acl("User:carol", "WRITE", topic="orders", host="10.0.0.7"),
)
ORDERS = {"resource_type": "TOPIC", "resource_name": "orders"}


@pytest.mark.parametrize(
    ("path", "fields", "shown"),
    [
        (WHO, ORDERS | {"operation": "READ"}, ["Principals: 3.", "User:alice", "User:bob"]),
        (WHO, ORDERS | {"operation": "READ", "search": "ALI"}, ["Principals: 1.", "User:alice"]),
        (
            WHO,
            {"resource_type": "TOPIC", "resource_name": "open", "operation": "READ"},
            ["Everyone else may, too", ", except eve."],
        ),
        (WHO, ORDERS | {"operation": "WRITE"}, ["1 more results", "ask again with a host"]),
        (WHO, ORDERS | {"operation": "WRITE", "host": "10.0.0.7"}, ["User:carol"]),
        (WHO, {"resource_type": "CLUSTER", "operation": "ALTER"}, ["User:root"]),
        (WHO, ORDERS | {"operation": "FLY"}, ["unknown operation", "Principals: 0."]),
        (
            WHAT,
            {"principal": "User:bob", "resource_type": "TOPIC", "operation": "READ"},
            ["ord", "every name that begins so", "open", "this name"],
        ),
        (
            WHAT,
            {"principal": "bob", "resource_type": "TOPIC", "operation": "READ", "search": "open"},
            ["Results: 1.", "open"],
        ),
        (WHAT, ORDERS | {"principal": "User:alice"}, ["Results: 2.", "READ", "DESCRIBE"]),
        (
            WHAT,
            {"principal": "User:root", "resource_type": "TOPIC", "operation": "READ"},
            ["the principal is a super user"],
        ),
    ],
)
async def test_results_are_shown(path: str, fields: dict[str, str], shown: list[str]) -> None:
    status, page = await ConsolePlace(None, *SET, topics=("orders",)).get(path, **fields)
    text = check_page(page)
    assert status == 200
    assert [each for each in shown if each not in text] == []


async def test_principal_links_to_the_explanation() -> None:
    _, page = await ConsolePlace(None, *SET).get(WHO, **ORDERS, operation="READ")
    assert (
        'href="/console/explain?principal=User%3Aalice&amp;operation=READ&amp;resource_type=TOPIC'
        "&amp;resource_name=orders&amp;host="
    ) in page


async def test_order_can_be_reversed() -> None:
    place = ConsolePlace(None, *SET)
    for order, expected in (("ascending", True), ("descending", False)):
        _, page = await place.get(WHO, **ORDERS, operation="READ", order=order)
        assert (page.index("User:alice</bdi>") < page.index("User:bob</bdi>")) == expected
        assert f'aria-sort="{order}"' in page


@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        (WHO, {"operation": "READ", "resource_type": "TOPIC"}, "resource name: expected"),
        (WHO, ORDERS, "operation: choose one"),
        (WHO, ORDERS | {"operation": "READ", "host": "x"}, "expected an IP address"),
        (WHO, ORDERS | {"operation": "READ", "page": "0"}, "page: expected a number"),
        (WHO, ORDERS | {"operation": "READ", "principal_type": "X"}, "unknown type 'X'"),
        (WHAT, ORDERS | {"principal": "User:"}, "principal: expected Type:name"),
        (WHAT, {"principal": "User:a", "resource_type": "TOPIC"}, "operation: choose one"),
        (WHAT, {"principal": "User:a", "x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_invalid_search_is_explained_beside_the_form(
    path: str, fields: dict[str, str], reason: str
) -> None:
    status, page = await ConsolePlace(None, *SET).get(path, **fields)
    assert status == 400
    assert reason in check_page(page)


async def test_rights_are_those_of_everybody(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *SET)
    own = {"principal": "User:other", "resource_type": "TOPIC", "operation": "READ"}
    assert (await place.get(WHAT, "other", **own))[0] == 200
    for path, fields in (
        (WHAT, own | {"principal": "User:alice"}),
        (WHO, ORDERS | {"operation": "READ"}),
        (f"{WHO}.csv", ORDERS | {"operation": "READ"}),
    ):
        status, page = await place.get(path, "other", **fields)
        assert status == 403
        assert "User:other needs CLUSTER_ACTION on the cluster" in check_page(page)


async def test_many_results_are_collected_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "RESULTS_PER_REQUEST", 7)
    acls = [acl(f"User:u{number:03}", "READ", topic="t") for number in range(50)]
    acls += [acl(f"User:h{number}", "READ", topic="t", host="10.0.0.1") for number in range(9)]
    place = ConsolePlace(None, *acls)
    fields = {"resource_type": "TOPIC", "resource_name": "t", "operation": "READ"}
    _, page = await place.get(WHO, **fields)
    text = check_page(page)
    assert "Principals: 51." in text
    assert "(9 more results)" in text
    monkeypatch.setattr(access, "ROWS_MAX", 20)
    monkeypatch.setattr(tables, "ROWS_MAX", 20)
    _, page = await place.get(WHO, **fields, search="u")
    assert "Principals: more than 20. The table has 20 of them" in check_page(page)
    lines = (await place.download(f"{WHO}.jsonl", **fields)).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [
        "root",
        *(a.principal[5:] for a in acls[:50]),
    ]
    text = await place.download(f"{WHO}.csv", **fields, search="u04")
    assert text.split("\r\n")[:-1] == ["principal", *(f"User:u04{digit}" for digit in range(10))]


async def test_first_pages_search_no_further_than_necessary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "RESULTS_PER_REQUEST", 10)
    monkeypatch.setattr(access, "PAGE_LIMIT_MAX", 10)
    monkeypatch.setattr(access, "ROWS_PER_PAGE", 5)
    monkeypatch.setattr(tables, "ROWS_PER_PAGE", 5)
    acls = [acl(f"User:u{number:03}", "READ", topic="t") for number in range(35)]
    place = ConsolePlace(None, *acls)
    fields = {"resource_type": "TOPIC", "resource_name": "t", "operation": "READ"}
    shown: list[str] = []
    searches = place.authorizer.counts_of("Search")
    for number in range(1, 9):
        before = searches.allowed
        _, page = await place.get(WHO, **fields, page=str(number))
        assert searches.allowed - before == min(4, number * 5 // 10 + 2)
        shown += [each.partition("</bdi>")[0] for each in page.split('<bdi class="name">')[1:]]
        assert ('rel="next"' in page) == (number < 8)
    assert shown == ["User:root", *(each.principal for each in acls)]


async def test_download_of_resources_names_their_patterns() -> None:
    fields = {"principal": "User:bob", "resource_type": "TOPIC", "operation": "READ"}
    place = ConsolePlace(None, *SET, acl("User:*", "ALL", topic="ord-x", deny=True))
    text = await place.download(f"{WHAT}.csv", **fields)
    assert text.split("\r\n")[:-1] == [
        "name,pattern,except",
        "open,this name,",
        "ord,every name that begins so,ord-x",
        "orders,this name,",
    ]
    lines = (await place.download(f"{WHAT}.jsonl", **fields)).splitlines()
    assert json.loads(lines[1])["properties"]["pattern_type"] == "PREFIXED"
