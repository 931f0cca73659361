"""The peers of the benchmark, and the sender, which sends every request once."""

from __future__ import annotations

import shutil
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, ResourceType
from tests.support.acls import acl, question
from tests.tools.bench.servers import Answer, send, send_and_close, serving
from tools.bench import kafka_peer
from tools.bench.figures import Absent, MeasurementError, percentile
from tools.bench.http_decisions import answerable
from tools.bench.opa_peer import make_policy_data, ready_opa
from tools.bench.openfga_peer import (
    is_expressible,
    make_api,
    make_model,
    make_search,
    make_tuple,
    ready_openfga,
)
from tools.bench.protocols import ANSWERED, post
from tools.bench.searches import WHAT_CAN, WHO_CAN, check_found
from tools.bench.sender import NUMBER, Plan, Report, run_load
from tools.bench.servers import check_agreement
from tools.bench.sets import AclSet, kind
from tools.bench.wrk import measure_rate

PREFIXED = acl("User:b", "READ", topic="pre", pattern="PREFIXED")
DENIED = acl("User:c", "READ", topic="t", deny=True)


@pytest.mark.parametrize(("given", "expressible"), [
    (acl("User:a", "READ", topic="t"), True),
    (acl("User:*", "ALL", topic="t"), True),
    (PREFIXED, False),
    (DENIED, False),
    (acl("User:a", "READ", topic="t", host="10.0.0.1"), False),
    (acl("User:a", "READ", topic="*"), False),
    (acl("Group:a", "READ", topic="t"), False),
])  # fmt: skip
def test_literal_permissions_for_any_host_are_expressible(given: Acl, expressible: bool) -> None:
    assert is_expressible(given) is expressible


def test_acl_becomes_a_tuple_of_the_model() -> None:
    made = make_tuple(acl("User:*", "READ", topic="t"))
    assert made == {"user": "user:*", "relation": "read", "object": "topic:t"}
    topic = make_model([ResourceType.TOPIC])["type_definitions"][1]
    assert topic["relations"]["read"] == {"this": {}}
    users = topic["metadata"]["relations"]["read"]["directly_related_user_types"]
    assert {"type": "user", "wildcard": {}} in users


@pytest.mark.parametrize(("operation", "allowing"), [
    ("READ", {"read", "all"}),
    ("DESCRIBE", {"describe", "read", "write", "delete", "alter", "all"}),
    ("DESCRIBE_CONFIGS", {"describe_configs", "alter_configs", "all"}),
])  # fmt: skip
def test_model_has_the_operations_that_imply_another(operation: str, allowing: set[str]) -> None:
    topic = make_model([ResourceType.TOPIC])["type_definitions"][1]
    children = topic["relations"][f"may_{operation.lower()}"]["union"]["child"]
    assert {child["computedUserset"]["relation"] for child in children} == allowing


def test_questions_whose_answer_needs_another_acl_are_left_out() -> None:
    acls = [acl("User:a", "READ", topic="t"), acl("User:c", "READ", topic="t"), PREFIXED, DENIED]
    kept = [question("User:a", "READ", topic="t"), question("User:b", "READ", topic="other")] * 50
    left_out = [question("User:b", "READ", topic="prefix"), question("User:c", "READ", topic="t")]
    given = AclSet("few", lambda: iter(acls), lambda: iter([*left_out, *kept]))
    assert answerable(given) == kept


def test_requests_to_openfga_name_the_store_and_the_model() -> None:
    api, asked = make_api("/stores/s", "m"), question("User:a", "READ", topic="t")
    batch = api.many([api.one(asked)] * 2)
    assert [each["correlation_id"] for each in batch["checks"]] == ["0", "1"]
    check = {"user": "user:a", "relation": "may_read", "object": "topic:t"}
    assert batch["checks"][0]["tuple_key"] == check
    model = {"authorization_model_id": "m", "relation": "may_read"}
    wanted = {"object": {"type": "topic", "id": "t"}, "user_filters": [{"type": "user"}]}
    assert make_search(api, asked, for_users=True) == ("/stores/s/list-users", {**model, **wanted})
    wanted = {"type": "topic", "user": "user:a"}
    assert make_search(api, asked, for_users=False) == (
        "/stores/s/list-objects", {**model, **wanted},
    )  # fmt: skip


def test_policy_data_is_indexed_as_the_policy_reads_it() -> None:
    data = make_policy_data(kind().acls())
    assert data["acls"]["ALLOW"]["LITERAL"]["TOPIC"]["topic-00007"] == {
        "User:u7": {"READ": {"*": True}},
        "User:w7": {"WRITE": {"*": True}},
    }
    assert data["prefix_lengths"] == {"TOPIC": [9]}


def test_peers_are_absent_if_they_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with ready_openfga(tmp_path, kind().acls()) as openfga, ready_opa(tmp_path, ()) as opa:
        assert (openfga, opa) == (Absent("no openfga"), Absent("no opa"))
    assert kafka_peer.prepare("4.3.1").classpath == Absent("no java")


def test_different_answers_of_two_sides_are_an_error() -> None:
    asked = [question("User:a", "READ", topic=topic) for topic in ("one", "two")]
    check_agreement("AD", "AD", asked, "K")
    for theirs in ("AA", "A"):
        with pytest.raises(MeasurementError, match="K answers"):
            check_agreement("AD", theirs, asked, "K")


def test_objects_and_users_that_only_the_peer_finds_are_an_error() -> None:
    allowed = AclSet("few", lambda: iter([acl("User:a", "READ", topic="t")]), lambda: iter(()))
    snapshot, asked = build(allowed.added()), question("User:a", "READ", topic="t")
    check_found(WHAT_CAN, asked, snapshot, {"t"}, {"t"})
    check_found(WHO_CAN, asked, snapshot, {"a", "b"}, {"a"})
    for endpoint, theirs in ((WHAT_CAN, {"other"}), (WHO_CAN, {"c"})):
        with pytest.raises(MeasurementError, match="finds"):
            check_found(endpoint, asked, snapshot, {"a"}, theirs)


def test_pom_names_no_registry() -> None:
    """The machine's own Maven settings choose the registry."""
    pom = Path("tools/bench/jvm/pom.xml").read_text()
    assert "4.3.1" in pom
    assert "repositor" not in pom.lower()


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
REFUSAL = b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"
REQUESTS = [post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]
STALL_SECONDS = 0.2


def load(answer: Answer, **fields: Any) -> tuple[Report, list[bytes]]:  # noqa: ANN401
    with serving(answer) as ((host, port), received):
        known = {"requests": REQUESTS, "rate": 1000.0, "connections": 1}
        return run_load(Plan(address=f"{host}:{port}", **{**known, **fields})), received


@pytest.mark.parametrize("fields", [{}, {"connections": 3}, {"is_fresh": True}])
def test_every_request_is_sent_once_and_answered(fields: dict[str, Any]) -> None:
    report, received = load(send(ANSWER), seconds=0.016, **fields)
    assert report.asked == report.answered == len(received) == len(report.times_ms) == 16
    assert Counter(received) == Counter(2 * REQUESTS)


def test_load_begins_with_the_request_that_is_named() -> None:
    _, received = load(send(ANSWER), seconds=0.002, first=len(REQUESTS) + 5)
    assert received == REQUESTS[5:7]


def test_stall_counts_for_all_requests_that_were_due_during_it() -> None:
    """A closed loop would count it once, however many requests had to wait."""
    answered = 0

    def answer(peer: socket.socket, request: bytes) -> None:
        nonlocal answered
        answered += 1
        if answered == 1:
            time.sleep(STALL_SECONDS)
        peer.sendall(ANSWER)

    report, _ = load(answer, rate=100.0, seconds=0.1)
    # The last one was due 90 ms after the first, and the half of them 40 ms.
    assert percentile(report.times_ms, 50) >= (STALL_SECONDS - 0.05) * 1000
    assert max(report.times_ms) >= STALL_SECONDS * 1000


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [(send(REFUSAL), "answered 503"), (send_and_close(b""), "closed")],
)
def test_anything_but_an_answer_ends_a_load(answer: Answer, complaint: str) -> None:
    with pytest.raises(MeasurementError, match=complaint):
        load(answer, seconds=0.1)


def test_refusals_are_counted_if_the_load_may_be_refused() -> None:
    """Requests that are due while a client waits after a refusal count as refused, too."""
    report, received = load(send(REFUSAL), rate=200.0, seconds=0.495, may_refuse=True)
    assert report.answered == 0
    assert report.refused == 99
    assert report.outcomes["503"] == len(received) < 50


def test_lost_connections_are_opened_again_if_the_load_may_be_refused() -> None:
    report, _ = load(send_and_close(ANSWER), rate=100.0, seconds=0.3, may_refuse=True)
    assert report.outcomes[ANSWERED] > 1


def test_closed_loop_measures_a_rate_and_the_times_of_one_request_at_a_time() -> None:
    alone, _ = load(send(ANSWER), rate=0.0, seconds=0.05)
    assert alone.per_second > 0
    assert len(alone.times_ms) == alone.answered > 1
    together, _ = load(send(ANSWER), rate=0.0, seconds=0.05, connections=3)
    assert (together.answered > 1, together.times_ms) == (True, [])


def test_each_request_gets_another_number() -> None:
    numbered = post("localhost", "/", b"{}", request_id=NUMBER.decode())
    _, received = load(send(ANSWER), requests=[numbered], seconds=0.003)
    assert len(set(received)) == 3
    assert b"X-Request-ID: 0000000002\r\n" in received[2]


def test_rate_without_answers_is_an_error() -> None:
    """An error of the harness must never be published as a figure."""
    with serving(send(REFUSAL)) as ((host, port), _), pytest.raises(Exception, match="answered"):
        measure_rate(Plan(address=f"{host}:{port}", requests=REQUESTS, seconds=0.1))


def test_script_of_wrk_is_where_it_is_expected() -> None:
    assert Path("tools/bench/wrk.lua").exists()
