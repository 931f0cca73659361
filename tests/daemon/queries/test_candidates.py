import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.daemon.audit.lines import Recorded
from authorizerd.daemon.queries import candidates
from authorizerd.daemon.queries.candidates import (
    apply_candidates,
    compare,
    find_present,
    judge,
    make_plan,
    read_candidates,
)
from authorizerd.management.formats.catalogue import PASTED_FORMATS
from authorizerd.management.formats.listing import write
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.queries import PlanQuestion
from tests.support.acls import acl, snapshot_of

SETTINGS = AuthorizerSettings()
ACLS = [
    acl(principal, operation, topic=topic, pattern=pattern, deny=deny)
    for principal in ("User:a", "User:b")
    for operation in ("READ", "ALL")
    for topic, pattern in (("t", "LITERAL"), ("t-1", "LITERAL"), ("t", "PREFIXED"))
    for deny in (False, True)
]
REQUESTS = [
    Recorded("", f"User:{name}", "10.0.0.1", operation, "TOPIC", topic, True, "Fetch")
    for name in "abc"
    for operation in ("READ", "WRITE")
    for topic in ("t", "t-1", "u")
]


def decide(snapshot: AclSnapshot, request: Recorded) -> bool:
    operation = {"READ": 3, "WRITE": 4}[request.operation]
    return authorize(
        snapshot, SETTINGS, request.principal, request.host, operation, 2, request.resource_name
    )


@given(st.sets(st.sampled_from(ACLS)), st.sets(st.sampled_from(ACLS), min_size=1), st.booleans())
def test_candidates_decide_as_in_a_daemon(held: set[Acl], wanted: set[Acl], replaces: bool) -> None:
    """The oracle loads the ACLs that there would be."""
    snapshot = snapshot_of(*held)
    principals = frozenset(each.principal for each in wanted)
    others = {each for each in held if each.principal not in principals}
    expected = snapshot_of(*(wanted | (others if replaces else held)))
    present = find_present(snapshot, principals)
    changes, undone = compare(present, list(wanted), replaces=replaces)
    after = apply_candidates(snapshot, undone)
    assert {*after.acls.values()} == {*expected.acls.values()}
    assert {*snapshot.acls.values()} == held
    assert changes.count == len({*expected.acls.values()} ^ held)
    traffic = judge(snapshot, after, SETTINGS, [*REQUESTS, None])
    assert (traffic.requests, traffic.allowed, traffic.unread) == (len(REQUESTS), len(REQUESTS), 1)
    changed = [each for each in REQUESTS if decide(snapshot, each) != decide(expected, each)]
    assert {each.recorded for each in (*traffic.newly_denied, *traffic.newly_allowed)} == {*changed}
    assert all(decide(snapshot, each.recorded) for each in traffic.newly_denied)


def test_candidates_replace_no_grant() -> None:
    granted, other, new = ACLS[0], ACLS[2], acl("User:a", "READ", topic="new")
    grant = Grant(
        id="1", acl=granted, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="why"
    )
    note = make_grant_note(grant)
    text = PASTED_FORMATS[1].write([new, note]).text
    assert read_candidates(text) == (new,)
    plan = make_plan(PlanQuestion(text, True, None, SETTINGS), snapshot_of(granted, other, note))
    assert plan.changes == (("add", name_acl(new)), ("remove", name_acl(other)))


def test_equal_requests_are_counted_together() -> None:
    snapshot = snapshot_of()
    after = snapshot_of(acl("User:a", "READ", topic="t"))
    (changed,) = judge(snapshot, after, SETTINGS, [*REQUESTS, REQUESTS[0]]).newly_allowed
    assert (changed.recorded, changed.count) == (REQUESTS[0], 2)


def test_candidates_are_read_in_each_format_that_people_paste() -> None:
    """The lines of JSON are those that the page ACLs downloads."""
    lines = "\n".join(msgspec.json.encode(name_acl(each)).decode() for each in ACLS)
    assert read_candidates(f"\n{lines}\n\n{lines}") == tuple(ACLS)
    for each in PASTED_FORMATS:
        assert {*read_candidates(each.write(ACLS).text)} == {*ACLS}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected at least one ACL"),
        ("nonsense", "line 1"),
        ("{", "line 1"),
        ("{}", "missing key 'acls'; expected one of the formats listing, json-lines, json"),
        (
            '{"resource_type":"FILE","resource_name":"t","pattern_type":"LITERAL",'
            '"principal":"User:a","host":"*","operation":"READ","permission_type":"ALLOW"}',
            "line 1.resource_type: unknown ResourceType 'FILE'",
        ),
        (
            '{"resource_type":"%s","resource_name":"t","principal":"User:a","operation":"READ",'
            '"permission_type":"ALLOW"}' % ("F" * 9_999),
            "unknown ResourceType 'F{80}': expected",
        ),
        ("acls: []", "expected one of the formats listing, json-lines, json, found yaml"),
    ],
)
def test_other_texts_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        read_candidates(text)


def test_numbers_of_acls_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "CANDIDATES_MAX", 3)
    monkeypatch.setattr(candidates, "PRESENT_MAX", 3)
    assert len(read_candidates(write(ACLS[:3]).text)) == 3
    with pytest.raises(QueryError, match="at most 3 ACLs"):
        read_candidates(write(ACLS[:4]).text)
    users = frozenset(("User:a",))
    assert len(find_present(snapshot_of(*ACLS[:3], ACLS[-1]), users)) == 3
    with pytest.raises(QueryError, match="more than 3 ACLs in force"):
        find_present(snapshot_of(*ACLS[:4]), users)


def test_acl_that_kafka_would_refuse_is_rejected() -> None:
    with pytest.raises(QueryError, match="Kafka would refuse"):
        compare([], [acl("nobody", "READ", topic="t")], replaces=False)
