"""AuthZEN's certification scenario, item by item, against a real daemon, over HTTPS.

Each test names the item of the scenario, such as ``c-2-2-1``. The fixture's policy is a set of
ACLs: records are topics. What a request says about the properties of an entity is not part of an
ACL, so the daemon ignores it. The fixture's rule 7, a permit that depends on a property, is the
only one that it cannot decide: the daemon denies, and does not certify for Basic Properties.

Source: openid/authzen, certification/authorization-api-1_0-scenario.md.
"""

import json
import ssl
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.certificates import Authority, connect_tls
from tests.support.daemon_process import (
    Answer,
    DaemonProcess,
    PortConnection,
    ask,
    new_log,
    run,
    running,
)

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
SUBJECTS: Final = "/access/v1/search/subject"
RESOURCES: Final = "/access/v1/search/resource"
ACTIONS: Final = "/access/v1/search/action"
JSON: Final = {"Content-Type": "application/json"}

ALICE: Final = {"type": "user", "id": "alice"}
BOB: Final = {"type": "user", "id": "bob"}
ADMIN_BOB: Final = BOB | {"properties": {"role": "admin"}}
RECORD_1: Final = {"type": "record", "id": "record-1"}
RECORD_2: Final = {"type": "record", "id": "record-2"}
ACTIVE_1: Final = RECORD_1 | {"properties": {"status": "active"}}
ARCHIVED_2: Final = RECORD_2 | {"properties": {"status": "archived"}}
READ: Final = {"name": "read"}
WRITE: Final = {"name": "write"}
CONTEXT: Final = {"time": "2025-06-27T18:03-07:00", "ip": "192.168.1.1"}

POLICY: Final = (
    ("alice", "Read", "record-1"),
    ("alice", "Write", "record-1"),
    ("bob", "Read", "record-1"),
    ("bob", "Write", "record-2"),
)


class SecuredPort(PortConnection):
    """A connection with TLS to the decision port."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__("decision", address)
        self._context = context

    def connect(self) -> None:
        self.sock = connect_tls(f"{self.host}:{self.port}", self._context)


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Run a daemon with TLS whose ACLs are the scenario's fixture."""
    folder = tmp_path_factory.mktemp("certification")
    authority = Authority(folder)
    keys = authority.server_keys() | {
        "authorizerd.authzen.resource.types": "record=TOPIC",
        "authorizerd.decision.http": "https://127.0.0.1:0",
    }
    with running(folder, new_log(folder), keys, super_users="User:ANONYMOUS") as daemon:
        daemon.decision = SecuredPort(daemon.ready["decision_http"], authority.client_context())
        for user, operation, record in POLICY:
            done = run(
                "acls", "--bootstrap-server", daemon.ready["listeners"]["PLAINTEXT"], "--add",
                "--allow-principal", f"User:{user}", "--operation", operation, "--topic", record,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        yield daemon


def post(pdp: DaemonProcess, path: str, body: object, **headers: str) -> Answer:
    """Send a request, and check what holds for every answer (c-5)."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = ask(pdp.decision, "POST", path, data, JSON | {"X-Request-ID": "r 1"} | headers)
    assert answer.headers["X-Request-ID"] == "r 1"
    if answer.status == 200:
        assert answer.headers["Content-Type"] == "application/json"
        assert isinstance(answer.json, dict)
    return answer


def question(
    subject: object = ALICE, action: object = READ, resource: object = RECORD_1, **more: object
) -> dict[str, Any]:
    return {"subject": subject, "action": action, "resource": resource, **more}


@pytest.mark.parametrize(
    ("asked", "decision"),
    [
        pytest.param(question(), True, id="c-2-2-1"),
        pytest.param(question(BOB, WRITE), False, id="c-2-2-2"),
        pytest.param(question(context=CONTEXT), True, id="c-2-2-3"),
        pytest.param(question(ALICE, WRITE, ARCHIVED_2), False, id="c-2-2-4"),
        pytest.param(question(ADMIN_BOB, WRITE, ARCHIVED_2), True, id="c-2-2-5"),
        pytest.param(
            question(action={"name": "delete", "properties": {"soft": False}}), False, id="c-2-2-7"
        ),
        pytest.param(
            question(
                ALICE | {"properties": {"department": "Sales", "role": "manager"}},
                READ | {"properties": {"method": "GET"}},
                RECORD_1 | {"properties": {"status": "active", "owner": "bob"}},
            ),
            True,
            id="c-2-2-8",
        ),
        pytest.param(question(foo="bar", futureField={"nested": True}), True, id="c-2-2-9"),
        pytest.param(question(ALICE, WRITE), True, id="c-1-4 rule 2"),
        pytest.param(question(BOB), True, id="c-1-4 rule 3"),
    ],
)
def test_basic_decision(pdp: DaemonProcess, asked: dict[str, Any], decision: bool) -> None:
    """The decision is a boolean (c-2-3-1), the context an object (c-2-3-2), each time (c-2-6)."""
    answers = [post(pdp, EVALUATION, asked) for _ in range(3)]
    assert {answer.status for answer in answers} == {200}
    assert [answer.json["decision"] for answer in answers] == [decision] * 3
    assert isinstance(answers[0].json["context"], dict)


def test_decision_that_depends_on_a_property_is_a_denial(pdp: DaemonProcess) -> None:
    """c-2-2-6 demands a permit. ACLs have no properties, and in doubt the daemon denies."""
    asked = question(action={"name": "delete", "properties": {"soft": True}})
    assert post(pdp, EVALUATION, asked).json["decision"] is False


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"action": READ, "resource": RECORD_1}, id="c-2-4-1 subject"),
        pytest.param({"subject": ALICE, "resource": RECORD_1}, id="c-2-4-1 action"),
        pytest.param({"subject": ALICE, "action": READ}, id="c-2-4-1 resource"),
        pytest.param(question({"id": "alice"}), id="c-2-4-2 subject type"),
        pytest.param(question({"type": "user"}), id="c-2-4-2 subject id"),
        pytest.param(question(action={}), id="c-2-4-2 action name"),
        pytest.param(question(resource={"id": "record-1"}), id="c-2-4-2 resource type"),
        pytest.param(question(resource={"type": "record"}), id="c-2-4-2 resource id"),
        pytest.param(b"{", id="c-2-4-4"),
        pytest.param(b"", id="c-2-4-5"),
        pytest.param(question("alice"), id="c-2-4-6 subject"),
        pytest.param(question(action={"name": 123}), id="c-2-4-6 action name"),
    ],
)
def test_basic_refusal(pdp: DaemonProcess, asked: object) -> None:
    """The body is an error message (the standard's table of status codes)."""
    answer = post(pdp, EVALUATION, asked)
    assert (answer.status, bool(answer.body.strip())) == (400, True)


def test_other_content_types_are_refused(pdp: DaemonProcess) -> None:
    """c-2-4-3."""
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        answer = post(pdp, EVALUATION, question(), **{"Content-Type": content_type})
        assert answer.status == 400


def test_request_id_is_repeated(pdp: DaemonProcess) -> None:
    """c-2-5-1 and c-2-5-2: ``post`` checks the first for every other answer."""
    body = json.dumps(question()).encode()
    for id_ in ("bfe9eb29-ab87-4ca3-be83-a1d5d8305716", "x"):
        answer = ask(pdp.decision, "POST", EVALUATION, body, JSON | {"X-Request-ID": id_})
        assert answer.headers["X-Request-ID"] == id_
    assert ask(pdp.decision, "POST", EVALUATION, body, JSON).status == 200


@pytest.mark.parametrize(
    ("asked", "decisions"),
    [
        pytest.param(
            {"subject": ALICE, "action": READ,
             "evaluations": [{"resource": RECORD_1}, {"resource": RECORD_2}]},
            [True, False], id="c-3-2-1",
        ),
        pytest.param(
            {"subject": BOB, "resource": RECORD_1,
             "evaluations": [{"action": READ}, {"action": WRITE}]},
            [True, False], id="c-3-2-2",
        ),
        pytest.param(
            {"subject": ALICE, "action": WRITE,
             "evaluations": [{"resource": ACTIVE_1}, {"resource": ARCHIVED_2}]},
            [True, False], id="c-3-2-3",
        ),
        pytest.param(
            {"action": WRITE, "resource": ARCHIVED_2,
             "evaluations": [{"subject": ALICE}, {"subject": ADMIN_BOB}]},
            [False, True], id="c-3-2-4",
        ),
        pytest.param(
            {"evaluations": [question(), question(BOB, WRITE)]}, [True, False], id="c-3-2-5"
        ),
        pytest.param(
            {"subject": ALICE, "action": READ, "context": {"time": "2025-06-27T18:03-07:00"},
             "evaluations": [
                 {"resource": RECORD_1},
                 {"resource": RECORD_2,
                  "context": {"time": "2025-06-27T19:00-07:00", "source": "batch-override"}},
             ]},
            [True, False], id="c-3-2-6",
        ),
        pytest.param(
            {"subject": ALICE, "action": WRITE, "resource": ACTIVE_1,
             "evaluations": [{}, {"resource": ARCHIVED_2}]},
            [True, False], id="c-3-2-7",
        ),
        pytest.param(
            {"subject": ALICE, "action": WRITE, "resource": {"type": "record"},
             "evaluations": [
                 {"resource": {"id": "record-1", "properties": {"status": "active"}}},
                 {"resource": ARCHIVED_2},
             ]},
            [True, False], id="conformance suite: default value merging",
        ),
        pytest.param(
            {"subject": ALICE, "action": READ,
             "options": {"evaluations_semantic": "execute_all"},
             "evaluations": [{"resource": RECORD_1}, {}]},
            [True, False], id="c-3-4-1",
        ),
    ],
)  # fmt: skip
def test_batch(pdp: DaemonProcess, asked: dict[str, Any], decisions: list[bool]) -> None:
    """As many answers as questions (c-3-3-1), in their order (c-3-3-2), each one a decision."""
    answer = post(pdp, EVALUATIONS, asked)
    assert answer.status == 200
    assert [each["decision"] for each in answer.json["evaluations"]] == decisions
    assert "decision" not in answer.json, "c-3-3-4"


@pytest.mark.parametrize("more", [{}, {"evaluations": []}], ids=["c-3-4-2", "c-3-4-3"])
def test_batch_without_evaluations_is_a_question(pdp: DaemonProcess, more: dict[str, Any]) -> None:
    answer = post(pdp, EVALUATIONS, question(**more))
    assert (answer.status, answer.json["decision"]) == (200, True)


SUBJECT_SEARCH: Final = {"subject": {"type": "user"}, "action": READ, "resource": RECORD_1}
RESOURCE_SEARCH: Final = {"subject": ALICE, "action": READ, "resource": {"type": "record"}}
ACTION_SEARCH: Final = {"subject": ALICE, "resource": RECORD_1}


@pytest.mark.parametrize(
    ("path", "asked", "wanted"),
    [
        pytest.param(SUBJECTS, SUBJECT_SEARCH, [ALICE, BOB], id="c-4-2-1"),
        pytest.param(SUBJECTS, SUBJECT_SEARCH | {"context": CONTEXT}, [ALICE, BOB], id="c-4-2-2"),
        pytest.param(SUBJECTS, SUBJECT_SEARCH | {"subject": ALICE}, [ALICE, BOB], id="c-4-2-3"),
        pytest.param(
            SUBJECTS,
            {"subject": {"type": "user"}, "action": WRITE, "resource": ARCHIVED_2},
            [BOB],
            id="c-4-2-4",
        ),
        pytest.param(RESOURCES, RESOURCE_SEARCH, [RECORD_1], id="c-4-3-1"),
        pytest.param(RESOURCES, RESOURCE_SEARCH | {"context": CONTEXT}, [RECORD_1], id="c-4-3-2"),
        pytest.param(RESOURCES, RESOURCE_SEARCH | {"resource": RECORD_1}, [RECORD_1], id="c-4-3-3"),
        pytest.param(
            RESOURCES,
            {"subject": ADMIN_BOB, "action": WRITE, "resource": {"type": "record"}},
            [RECORD_2],
            id="c-4-3-4",
        ),
        pytest.param(ACTIONS, ACTION_SEARCH, [READ, WRITE], id="c-4-4-1"),
        pytest.param(ACTIONS, ACTION_SEARCH | {"context": CONTEXT}, [READ, WRITE], id="c-4-4-2"),
        pytest.param(
            ACTIONS, {"subject": ADMIN_BOB, "resource": ARCHIVED_2}, [WRITE], id="c-4-4-3"
        ),
    ],
)
def test_search(
    pdp: DaemonProcess, path: str, asked: dict[str, Any], wanted: list[dict[str, str]]
) -> None:
    """Each result has the type that was searched for. Asked about, each one is permitted."""
    answer = post(pdp, path, asked)
    assert answer.status == 200
    results = answer.json["results"]
    assert [each for each in wanted if each not in results] == []
    assert next(iter(answer.json)) == "page", "recommended, so that a client sees the count first"
    for result in results:
        evaluation = dict(asked)
        match path:
            case path if path == SUBJECTS:
                assert result["type"] == "user"
                evaluation["subject"] = result
            case path if path == RESOURCES:
                assert result["type"] == "record"
                evaluation["resource"] = result
            case _:
                evaluation["action"] = result
        assert post(pdp, EVALUATION, evaluation).json["decision"] is True


def test_search_goes_on_at_the_next_page(pdp: DaemonProcess) -> None:
    """c-4-5-1 to c-4-5-3: the second request has only the token, without the limit."""
    first = post(pdp, SUBJECTS, SUBJECT_SEARCH | {"page": {"limit": 1}}).json
    assert first["results"] == [{"type": "user", "id": "ANONYMOUS"}]
    found, token = first["results"], first["page"]["next_token"]
    while token:
        page = post(pdp, SUBJECTS, SUBJECT_SEARCH | {"page": {"token": token}}).json
        found += page["results"]
        token = page["page"]["next_token"]
        assert isinstance(token, str)
        assert page["page"]["count"] == len(page["results"]) == 1
    assert found == post(pdp, SUBJECTS, SUBJECT_SEARCH).json["results"]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        pytest.param(
            ACTIONS,
            ACTION_SEARCH | {"subject": {"type": "user", "id": "nonexistent-user"}},
            id="c-4-6-1",
        ),
        pytest.param(
            RESOURCES,
            RESOURCE_SEARCH | {"subject": {"type": "user", "id": "nonexistent-user"}},
            id="c-4-6-1 resource",
        ),
        pytest.param(
            SUBJECTS, SUBJECT_SEARCH | {"subject": {"type": "spaceship"}}, id="c-4-6-2"
        ),
        pytest.param(
            RESOURCES, RESOURCE_SEARCH | {"resource": {"type": "spaceship"}}, id="c-4-6-2 resource"
        ),
        pytest.param(
            ACTIONS, ACTION_SEARCH | {"resource": {"type": "spaceship", "id": "x"}},
            id="c-4-6-2 action",
        ),
    ],
)  # fmt: skip
def test_nothing_found_is_empty_list(pdp: DaemonProcess, path: str, asked: dict[str, Any]) -> None:
    answer = post(pdp, path, asked)
    assert (answer.status, answer.json["results"]) == (200, [])


def test_unknown_resource_is_found_by_super_users_only(pdp: DaemonProcess) -> None:
    """c-4-6-1 for subjects: a super user may do everything, also to records that nobody knows."""
    unknown = SUBJECT_SEARCH | {"resource": {"type": "record", "id": "nonexistent"}}
    assert post(pdp, SUBJECTS, unknown).json["results"] == [{"type": "user", "id": "ANONYMOUS"}]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        pytest.param(SUBJECTS, {"subject": {"type": "user"}, "resource": RECORD_1}, id="c-4-7-1"),
        pytest.param(RESOURCES, {"action": READ, "resource": {"type": "record"}}, id="c-4-7-1 b"),
        pytest.param(ACTIONS, {"subject": ALICE}, id="c-4-7-1 c"),
        pytest.param(SUBJECTS, SUBJECT_SEARCH | {"resource": {"type": "record"}}, id="c-4-7-2"),
        pytest.param(RESOURCES, RESOURCE_SEARCH | {"subject": {"type": "user"}}, id="c-4-7-2 b"),
        pytest.param(ACTIONS, ACTION_SEARCH | {"subject": {"type": "user"}}, id="c-4-7-2 c"),
    ],
)
def test_search_refusal(pdp: DaemonProcess, path: str, asked: dict[str, Any]) -> None:
    answer = post(pdp, path, asked)
    assert (answer.status, b"missing" in answer.body) == (400, True)


def test_discovery_lists_what_is_served(pdp: DaemonProcess) -> None:
    """c-6-1 to c-6-5."""
    answer = ask(pdp.decision, "GET", "/.well-known/authzen-configuration")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    url = f"https://{pdp.ready['decision_http']}"
    metadata = answer.json
    assert metadata.pop("policy_decision_point") == url
    assert metadata == {
        "access_evaluation_endpoint": url + EVALUATION,
        "access_evaluations_endpoint": url + EVALUATIONS,
        "search_subject_endpoint": url + SUBJECTS,
        "search_resource_endpoint": url + RESOURCES,
        "search_action_endpoint": url + ACTIONS,
    }
    for endpoint in metadata.values():
        assert post(pdp, endpoint.removeprefix(url), {}).status == 400
