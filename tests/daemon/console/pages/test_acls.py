import json
import re
from base64 import urlsafe_b64encode
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode as json_decode

from authorizerd.daemon.console import tables
from authorizerd.daemon.queries import tables as made
from authorizerd.protocol.decisions.acl_feed import ListedAcl, encode_listed
from tests.daemon.console.console_place import ACLS, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.daemon.decision_place import PROXY
from tests.support.acls import acl

SET = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:alice", "WRITE", topic="=orders", host="10.0.0.1"),
    acl("User:bob", "ALL", topic="orders", deny=True),
    acl(PROXY, "DESCRIBE", cluster=True),
)
EVERYONE = [PROXY, "User:alice", "User:alice", "User:bob"]


def rows_of(page: str) -> list[str]:
    """Return the principals of the table's rows."""
    return [
        each.partition("</bdi>")[0] for each in page.split('<th scope="row"><bdi class="name">')[1:]
    ]


@pytest.mark.parametrize(
    ("fields", "principals"),
    [
        ({}, EVERYONE),
        ({"order": "descending"}, [*EVERYONE[::-1]]),
        ({"sort": "permission_type", "order": "descending"}, [*EVERYONE[::-1]]),
        ({"principal": "User:alice"}, ["User:alice", "User:alice"]),
        ({"principal": "User:alice", "operation": "WRITE"}, ["User:alice"]),
        ({"resource_name": "orders", "resource_type": "TOPIC"}, ["User:alice", "User:bob"]),
        ({"permission_type": "DENY"}, ["User:bob"]),
        ({"search": "CLUSTER"}, [PROXY]),
        ({"search": "10.0."}, ["User:alice"]),
        ({"host": "", "operation": ""}, EVERYONE),
        ({"principal": "User:nobody"}, []),
    ],
)
async def test_acls_that_match_are_shown(
    fields: dict[str, str], principals: list[str], tmp_path: Path
) -> None:
    place = ConsolePlace(tmp_path, *SET)
    status, page = await place.get(ACLS, "root", **fields)
    assert status == 200
    assert rows_of(page) == principals
    assert f"ACLs: {len(principals)}." in check_page(page)


@pytest.mark.parametrize("path", [ACLS, f"{ACLS}.csv", f"{ACLS}.jsonl"])
async def test_right_to_list_is_necessary(path: str, tmp_path: Path) -> None:
    text = await ConsolePlace(tmp_path, *SET).text(path, "other", 403)
    assert "User:other may not list or watch ACLs" in text
    assert "authorizerd.callers.read does not list it" in text
    assert "alice" not in text.replace("such as User:alice", "")


async def test_downloads_have_all_acls_that_match(tmp_path: Path) -> None:
    place = ConsolePlace(tmp_path, *SET)
    lines = (await place.download(f"{ACLS}.jsonl", "root", search="orders")).splitlines()
    assert {json.loads(line)["resource_name"] for line in lines} == {"orders", "=orders"}
    assert len(lines) == 3
    text = await place.download(f"{ACLS}.csv", "root", principal="User:alice")
    head, *rows = text.split("\r\n")[:-1]
    assert (
        head == "principal,permission_type,operation,resource_type,resource_name,pattern_type,host"
    )
    assert sorted(rows) == [
        "User:alice,ALLOW,READ,TOPIC,orders,LITERAL,*",
        "User:alice,ALLOW,WRITE,TOPIC,'=orders,LITERAL,10.0.0.1",
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"operation": "FLY"}, "operation: unknown value 'FLY'"),
        ({"as_of": "x"}, "as_of:"),
        ({"sort": "x"}, "sort: expected one of principal"),
        ({"x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_bad_filter_is_explained(fields: dict[str, str], reason: str, tmp_path: Path) -> None:
    assert reason in await ConsolePlace(tmp_path).text(ACLS, "root", 400, **fields)


async def test_every_page_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (made, tables):
        monkeypatch.setattr(module, "ROWS_PER_PAGE", 7)
    principals = [f"User:p{number:03}" for number in range(200)]
    place = ConsolePlace(tmp_path, *(acl(each, "READ", topic="t") for each in principals))
    for order, expected in (("", principals), ("descending", principals[::-1])):
        link, shown = f"{ACLS}?order={order}", list[str]()
        while link:
            assert len(shown) < len(expected)
            query = dict(parse_qsl(link.partition("?")[2]))
            status, page = await place.get(ACLS, "root", **query)
            assert status == 200
            assert "ACLs: 200." in check_page(page)
            shown += rows_of(page)
            following = re.search(r'href="([^"]*)" rel="next"', page)
            link = unescape(following[1]) if following else ""
        assert shown == expected
        assert 'rel="prev"' in page
    lines = await place.download(f"{ACLS}.csv", "root")
    assert all(each in lines for each in principals)


@given(st.binary(min_size=16, max_size=16))
def test_id_is_written_as_kafka_writes_it(acl_id: bytes) -> None:
    listed = json_decode(encode_listed(acl_id, SET[0]), type=ListedAcl)
    assert listed.id == urlsafe_b64encode(acl_id).decode().rstrip("=")
