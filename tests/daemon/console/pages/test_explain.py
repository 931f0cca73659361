import pytest

from tests.daemon.console.console_place import EXPLAIN, ConsolePlace
from tests.daemon.console.page_check import check_page
from tests.support.acls import acl

ACLS = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:robot", "WRITE", topic="orders", host="10.0.0.7"),
    acl("User:*", "ALL", topic="secret", deny=True),
    acl("User:*", "ALL", topic="logs", deny=True, host="10.0.0.1"),
)

ORDERS = {"resource_type": "TOPIC", "resource_name": "orders"}


@pytest.mark.parametrize(
    ("principal", "operation", "name", "host", "shown"),
    [
        ("User:alice", "READ", "orders", "", ["Allowed", "from an unknown host", "To deny it"]),
        ("alice", "DESCRIBE", "orders", "10.0.0.1", ["Allowed", "from host", "allows DESCRIBE"]),
        ("User:eve", "READ", "logs", "", ["Denied", "Ask with a host for its own answer"]),
        ("User:eve", "READ", "secret", "", ["Denied", "this ACL decides", "DENY"]),
        (
            "User:robot",
            "WRITE",
            "orders",
            "10.0.0.8",
            [
                "Denied",
                "No ACL matches",
                "Near misses",
                "allowed WRITE on topic `orders` from host 10.0.0.7",
                "Explain this instead",
                "kafka-acls --bootstrap-server",
                "--allow-host 10.0.0.8",
            ],
        ),
    ],
)
async def test_decision_and_its_reasons_are_shown(
    principal: str, operation: str, name: str, host: str, shown: list[str]
) -> None:
    fields = {"principal": principal, "operation": operation, "resource_name": name, "host": host}
    text = await ConsolePlace(None, *ACLS).text(EXPLAIN, **(ORDERS | fields))
    assert [each for each in shown if each not in text] == []


async def test_near_miss_links_to_its_own_explanation() -> None:
    asked = ORDERS | {"principal": "User:robot", "operation": "WRITE", "host": "10.0.0.8"}
    _, page = await ConsolePlace(None, *ACLS).get(EXPLAIN, **asked)
    assert (
        'href="/console/explain?principal=User%3Arobot&amp;host=10.0.0.7&amp;operation=WRITE'
        '&amp;resource_type=TOPIC&amp;resource_name=orders"'
    ) in page


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"principal": ""}, "principal: expected Type:name, for example User:alice"),
        ({"principal": "Team:a"}, "unknown type 'Team': expected one of User"),
        ({"operation": ""}, "operation: choose one"),
        ({"operation": "FLY"}, "action.name: unknown operation 'FLY'"),
        ({"resource_type": "FILE"}, "resource type: 'FILE' is unknown: expected one of TOPIC"),
        ({"resource_name": ""}, "resource name: expected the name of a resource"),
        ({"host": "h"}, "context.host: expected an IP address, found 'h'"),
        ({"as_of": "yesterday"}, "context.as_of:"),
        ({"principal": "User:*"}, "User:*"),
        ({"other": "1"}, "unknown parameter 'other'"),
    ],
)
async def test_invalid_question_is_explained_at_form(changed: dict[str, str], shown: str) -> None:
    fields = ORDERS | {"principal": "User:a", "operation": "READ"} | changed
    status, page = await ConsolePlace(None).get(EXPLAIN, **fields)
    assert status == 400
    assert shown in check_page(page)
    assert '<form class="question"' in page


async def test_cluster_needs_no_name() -> None:
    fields = {"resource_type": "CLUSTER", "resource_name": "", "operation": "ALTER"}
    text = await ConsolePlace(None).text(EXPLAIN, **fields, principal="User:a")
    assert "kafka-cluster" in text


async def test_explanations_are_counted_and_audited_as_for_everybody() -> None:
    place = ConsolePlace(None, *ACLS)
    await place.get(EXPLAIN, **ORDERS, principal="User:alice", operation="READ")
    assert place.authorizer.counts_of("Explain").allowed == 1
    (event,) = place.audit_log.events
    assert (event.question.principal, event.request_name) == ("User:alice", "Explain")
