import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.config.configuration import parse
from authorizerd.daemon.queries import searches
from tests.daemon.console.console_place import WHAT, WHO, ConsolePlace
from tests.support.acls import acl
from tests.support.sizes import size
from tests.support.strategies import acls, resource_names

SET = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:bob", "ALL", topic="ord", pattern="PREFIXED"),
    acl("User:*", "READ", topic="open"),
    acl("User:eve", "ALL", topic="open", deny=True),
    acl("User:carol", "WRITE", topic="orders", host="10.0.0.7"),
)
ORDERS = {"resource_type": "TOPIC", "resource_name": "orders"}
READ_TOPICS = {"resource_type": "TOPIC", "operation": "READ"}
READ_ORDERS = READ_TOPICS | {"resource_name": "orders"}
READ_OPEN = READ_TOPICS | {"resource_name": "open"}
ALTER_CLUSTER = {"resource_type": "CLUSTER", "operation": "ALTER"}


@pytest.mark.parametrize(
    ("path", "fields", "shown"),
    [
        (WHO, READ_ORDERS, ["Rows: 3.", "User:alice", "User:bob", "from any host"]),
        (WHO, READ_ORDERS | {"search": "ALI"}, ["Rows: 1.", "User:alice"]),
        (WHO, READ_OPEN, ["So may everyone else", "from any host", "User:eve", "from no host"]),
        (
            WHO,
            READ_OPEN | {"search": "bob"},
            ["So may everyone else", "that the whole table, without a search, does not list"],
        ),
        (WHO, ORDERS | {"operation": "WRITE"}, ["User:carol", "only from 10.0.0.7"]),
        (WHO, ORDERS | {"operation": "WRITE", "host": "10.0.0.7"}, ["User:carol"]),
        (WHO, ALTER_CLUSTER, ["User:root", "from any host (super user)"]),
        (
            WHAT,
            READ_TOPICS | {"principal": "User:bob"},
            ["ord", "every name with this prefix", "open", "this name"],
        ),
        (WHAT, READ_TOPICS | {"principal": "bob", "search": "open"}, ["Rows: 1.", "open"]),
        (WHAT, ORDERS | {"principal": "User:alice"}, ["Rows: 2.", "READ", "DESCRIBE"]),
        (WHAT, READ_TOPICS | {"principal": "User:root"}, ["the principal is a super user"]),
    ],
)
async def test_results_are_shown(path: str, fields: dict[str, str], shown: list[str]) -> None:
    text = await ConsolePlace(None, *SET, topics=("orders",)).text(path, **fields)
    assert [each for each in shown if each not in text] == []


@pytest.mark.parametrize("pattern", ["LITERAL", "PREFIXED"])
@pytest.mark.parametrize(
    ("count", "length"),
    [(12, 30_000), (40, 12_000), (150, 30_000)],  # the second has several pages of the search
)
async def test_long_names_are_shown(pattern: str, count: int, length: int) -> None:
    names = [f"{number:03}{'x' * length}" for number in range(count)]
    place = ConsolePlace(None, *(acl("User:a", topic=name, pattern=pattern) for name in names))
    assert f"Rows: {count}." in await place.text(WHAT, **READ_TOPICS, principal="User:a")


async def test_others_are_ruled_out_below_the_list() -> None:
    _, page = await ConsolePlace(None, *SET).get(WHO, **READ_ORDERS)
    assert page.index("User:bob") < page.index("Nobody else may.")


async def test_principal_links_to_the_explanation() -> None:
    _, page = await ConsolePlace(None, *SET).get(WHO, **READ_ORDERS)
    assert (
        'href="/console/explain?principal=User%3Aalice&amp;operation=READ&amp;resource_type=TOPIC'
        "&amp;resource_name=orders&amp;host="
    ) in page


async def test_order_can_be_reversed() -> None:
    place = ConsolePlace(None, *SET)
    for order, expected in (("ascending", True), ("descending", False)):
        _, page = await place.get(WHO, **READ_ORDERS, order=order)
        assert (page.index("User:alice</bdi>") < page.index("User:bob</bdi>")) == expected
        assert f'aria-sort="{order}"' in page


@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        (WHO, {"operation": "READ", "resource_type": "TOPIC"}, "resource name: expected"),
        (WHO, ORDERS, "operation: choose one"),
        (WHO, ORDERS | {"operation": "FLY"}, "unknown operation"),
        (WHO, READ_ORDERS | {"host": "x"}, "expected an IP address"),
        (WHO, READ_ORDERS | {"page": "0"}, "page: expected a number"),
        (WHO, READ_ORDERS | {"principal_type": "X"}, "unknown type 'X'"),
        (WHAT, ORDERS | {"principal": "User:"}, "principal: expected Type:name"),
        (WHAT, {"principal": "User:a", "resource_type": "TOPIC"}, "operation: choose one"),
        (WHAT, {"principal": "User:a", "x": "y"}, "unknown parameter 'x'"),
    ],
)
async def test_invalid_search_is_explained(path: str, fields: dict[str, str], reason: str) -> None:
    assert reason in await ConsolePlace(None, *SET).text(path, "", 400, **fields)


async def test_download_needs_the_same_right(tmp_path: Path) -> None:
    text = await ConsolePlace(tmp_path, *SET).text(f"{WHO}.csv", "other", 403, **READ_ORDERS)
    assert "authorizerd.callers.search does not list it" in text


async def test_many_results_are_collected_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "ROWS_AT_ONCE", 7)
    acls = [acl(f"User:u{number:03}", "READ", topic="t") for number in range(50)]
    acls += [acl(f"User:h{number}", "READ", topic="t", host="10.0.0.1") for number in range(9)]
    place = ConsolePlace(None, *acls)
    fields = {"resource_type": "TOPIC", "resource_name": "t", "operation": "READ"}
    assert "Rows: 60." in await place.text(WHO, **fields)
    assert "Rows: 50." in await place.text(WHO, **fields, search="u0")
    lines = (await place.download(f"{WHO}.jsonl", **fields)).splitlines()
    assert [json.loads(line)["principal"] for line in lines] == [
        *(f"User:h{number}" for number in range(9)),
        "User:root",
        *(each.principal for each in acls[:50]),
    ]
    text = await place.download(f"{WHO}.csv", **fields, search="u04")
    assert text.split("\r\n")[:-1] == [
        "principal,hosts",
        *(f"User:u04{digit},from any host" for digit in range(10)),
    ]


async def test_others_are_ruled_out_only_by_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search hides rows."""
    monkeypatch.setattr(searches, "ROWS_AT_ONCE", 10)
    types = "authorizerd.authzen.subject.types=group=Group,user=User"
    groups = (acl(f"Group:g{number:02}", "READ", topic="t") for number in range(35))
    place = ConsolePlace(
        None, *groups, configuration=parse(f"node.id=1\nlog.dirs=/log\n{types}\n", source="test")
    )
    fields = {"resource_type": "TOPIC", "resource_name": "t", "operation": "READ"}
    for more, said in (
        ({}, "1 principals of other types may"),
        ({"sort": "hosts"}, "1 principals of other types may"),
        ({"search": "g01"}, "1 principals of other types may"),
    ):
        text = await place.text(WHO, **fields, principal_type="Group", **more)
        text = " ".join(text.split())
        assert said in text
        assert ("Nobody else" in text) == ("search" not in more)
    text = await place.text(WHO, **fields, principal_type="User")
    assert "Nobody else of type User may." in text


async def test_download_of_resources_names_their_patterns() -> None:
    fields = {"principal": "User:bob", "resource_type": "TOPIC", "operation": "READ"}
    denied = (
        acl("User:*", "ALL", topic="ord-x", deny=True),
        acl("User:*", "ALL", topic="orders", deny=True, host="10.0.0.7"),
    )
    place = ConsolePlace(None, *SET, *denied)
    place.authorizer.configure({"allow.everyone.if.no.acl.found": "true"})
    text = await place.download(f"{WHAT}.csv", **fields)
    assert text.split("\r\n")[:-1] == [
        "name,pattern,except,hosts",
        ",every name that no ACL matches,,from any host",
        "open,this name,,from any host",
        'ord,every name with this prefix,"ord-x, orders",from any host',
        "orders,this name,,from any host except 10.0.0.7",
    ]
    lines = (await place.download(f"{WHAT}.jsonl", **fields)).splitlines()
    assert json.loads(lines[0])["pattern"] is None
    assert json.loads(lines[2]) == {
        "resource_type": "TOPIC",
        "pattern": {"pattern_type": "PREFIXED", "resource_name": "ord"},
        "hosts": {"any": True, "except": [], "only": []},
        "except": [
            {"pattern_type": "LITERAL", "resource_name": "ord-x"},
            {"pattern_type": "LITERAL", "resource_name": "orders"},
        ],
    }


async def test_one_denied_host_leaves_nobody_out() -> None:
    """The page and both downloads list who is allowed from other hosts, and the denied ones."""
    place = ConsolePlace(
        None,
        *(acl(f"User:u{number}", "WRITE", topic="orders") for number in range(5)),
        acl("User:*", "WRITE", topic="orders", deny=True, host="10.0.0.1"),
        acl("Group:g", "WRITE", topic="orders"),
    )
    fields = ORDERS | {"operation": "WRITE"}
    text = await place.download(f"{WHO}.csv", **fields)
    assert text.split("\r\n")[1:-1] == [
        "User:root,from any host (super user)",
        *(f"User:u{number},from any host except 10.0.0.1" for number in range(5)),
    ]
    assert "1 principals of other types may as well" in await place.text(WHO, **fields)
    lines = (await place.download(f"{WHO}.jsonl", **fields)).splitlines()
    assert json.loads(lines[-1]) == {
        "principal": "User:u4",
        "hosts": {"any": True, "except": ["10.0.0.1"], "only": []},
    }
    what = {"principal": "User:u1", "resource_type": "TOPIC", "operation": "WRITE"}
    text = await place.download(f"{WHAT}.csv", **what)
    assert text.split("\r\n")[1:-1] == ["orders,this name,,from any host except 10.0.0.1"]
    text = await place.download(f"{WHAT}.csv", **what, resource_name="orders")
    assert text.split("\r\n")[1:-1] == [
        "WRITE,from any host except 10.0.0.1",
        "DESCRIBE,from any host",
    ]


async def test_denial_from_the_asked_host_says_nothing_about_others() -> None:
    place = ConsolePlace(
        None,
        acl("User:*", "READ", topic="open"),
        acl("User:eve", "READ", topic="open", deny=True, host="10.0.0.1"),
    )
    fields = {"resource_type": "TOPIC", "resource_name": "open", "operation": "READ"}
    for host, where, line in (
        ("", "from any host except 10.0.0.1", {"any": True, "except": ["10.0.0.1"], "only": []}),
        ("10.0.0.1", "not from 10.0.0.1", None),
    ):
        text = await place.download(f"{WHO}.csv", **fields, host=host)
        rows = [
            "everyone else,from any host",
            f"User:eve,{where}",
            "User:root,from any host (super user)",
        ]
        assert text.split("\r\n")[1:-1] == rows
        lines = (await place.download(f"{WHO}.jsonl", **fields, host=host)).splitlines()
        denied = {"denied_host": host} if host else {}
        assert json.loads(lines[1]) == {"principal": "User:eve", "hosts": line, **denied}
        assert where in await place.text(WHO, **fields, host=host)


HOSTS = ("10.0.0.1", "10.0.0.7", "10.0.0.8", "10.9.9.9")


def allows(hosts: dict[str, Any], host: str) -> bool:
    """Return whether the ``hosts`` of a line allow one."""
    return host not in hosts["except"] if hosts["any"] else host in hosts["only"]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=size(10, 60))
@given(
    st.lists(acls(), max_size=10, unique=True),
    resource_names.filter(bool),
    st.booleans(),
    st.sampled_from(HOSTS),
)
async def test_downloads_agree_with_every_decision(
    held: list[Acl], name: str, is_open: bool, asked_host: str
) -> None:
    """A principal without a line has the rights of the line for everyone else."""
    place = ConsolePlace(None, *held)
    place.authorizer.configure({"allow.everyone.if.no.acl.found": str(is_open).lower()})
    state = place.authorizer.current_state()
    snapshot, rules = state.snapshot, state.settings
    assert snapshot is not None

    def decide(principal: str, host: str, operation: int) -> bool:
        return authorize(snapshot, rules, principal, host, operation, 2, name)

    question = {"resource_type": "TOPIC", "resource_name": name}
    text = await place.download(f"{WHO}.jsonl", **question, operation="DESCRIBE")
    lines = {each["principal"]: each["hosts"] for each in map(json.loads, text.splitlines())}
    nobody = {"any": False, "except": [], "only": []}
    principals = {each.principal for each in held if each.principal.startswith("User:")}
    for principal in (principals - {"User:*"}) | {"User:root", "User:nobody"}:
        found = lines.get(principal, lines.get(None, nobody))
        for host in HOSTS:
            assert allows(found, host) == decide(principal, host, Operation.DESCRIBE)
    question["host"] = asked_host
    text = await place.download(f"{WHO}.jsonl", **question, operation="DESCRIBE")
    rows = {each.pop("principal"): each for each in map(json.loads, text.splitlines())}
    for principal in (principals - {"User:*"}) | {"User:root", "User:nobody"}:
        row = rows.get(principal, rows.get(None, {"hosts": nobody}))
        if row["hosts"] is None:
            assert row["denied_host"] == asked_host
            assert not decide(principal, asked_host, Operation.DESCRIBE)
            continue
        for host in HOSTS if principal in rows else (asked_host,):
            assert allows(row["hosts"], host) == decide(principal, host, Operation.DESCRIBE)
    del question["host"]
    for principal in ("User:a", "User:nobody"):
        text = await place.download(f"{WHAT}.jsonl", **question, principal=principal)
        operations = {
            Operation[each["operation"]]: each["hosts"]
            for each in map(json.loads, text.splitlines())
        }
        for operation in SUPPORTED[ResourceType.TOPIC]:
            for host in HOSTS:
                found = operations.get(operation, nobody)
                assert allows(found, host) == decide(principal, host, operation)
