"""The mirror decides as the daemon does, by a state that was the daemon's not long ago."""

import signal
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl import model
from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import (
    EMPTY_SNAPSHOT,
    AclSnapshot,
    apply_changes,
    at_offset,
    with_rules,
)
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.protocol.decisions.acl_feed import (
    encode_changes,
    encode_listed,
    encode_listing_begin,
    encode_listing_end,
)
from authorizerd_client import (
    Acl,
    AclChange,
    AuthorizerdError,
    Changes,
    InvalidQuestionError,
    Listing,
    NotReadyError,
    ProtocolError,
    Resumed,
    Suspended,
)
from authorizerd_client.following import Follower
from authorizerd_client.mirror import Mirror
from authorizerd_client.mirror.copy import VERSIONS_MAX, Copy
from authorizerd_client.mirror.state import DaemonState, read_state
from authorizerd_client.values import Address, AnyQuestion
from tests.acl.questions import questions
from tests.clients.conftest import daemon_with_tokens
from tests.support.acls import acl, snapshot_after, snapshot_of
from tests.support.admin_client import binding, create_acls, delete_acls, filter_of, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, closed_address, wait_until
from tests.support.strategies import logs

STALE = 10.0
DAMAGES = 20
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ORDERS = ("User:alice", "10.0.0.1", "READ", "TOPIC", "orders")
ONE = snapshot_of(acl("User:alice", "READ", topic="orders"))
TWO = snapshot_of(*ONE.acls.values(), acl("User:bob", "READ", topic="orders"), offset=1)


def write_id(acl_id: bytes) -> str:
    return urlsafe_b64encode(acl_id).rstrip(b"=").decode()


def list_acl(each: model.Acl) -> Acl:
    return Acl(**msgspec.structs.asdict(name_acl(each)))


def list_all(snapshot: AclSnapshot) -> Listing:
    acls = {write_id(acl_id): list_acl(each) for acl_id, each in snapshot.acls.items()}
    return Listing(snapshot.offset, acls)


def list_changes(before: AclSnapshot, changes: Iterable[model.Change], offset: int) -> Changes:
    """Return the event for changes that follow a state."""
    known, listed = dict(before.acls), []
    for change in changes:
        is_added = isinstance(change, model.AclAdded)
        if isinstance(change, model.AclAdded):
            known[change.id] = change.acl
        listed.append(AclChange(is_added, write_id(change.id), list_acl(known[change.id])))
    return Changes(offset, tuple(listed))


def state_of(
    snapshot: AclSnapshot, valid_seconds: float | None = None, *, default: bool = False
) -> DaemonState:
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=default)
    return DaemonState(snapshot.version, settings, RULES_4_3, valid_seconds)


@given(
    log=logs(unknown_codes=True),
    start=st.integers(0, 6),
    rules=st.sampled_from([RULES_4_3, RULES_4_4, ANY_RELEASE]),
    default=st.booleans(),
    asked=st.lists(questions(), min_size=10, max_size=10),
)
def test_copy_decides_as_the_daemon(
    log: list[model.ChangeBatch],
    start: int,
    rules: object,
    default: bool,
    asked: list[model.Question],
) -> None:
    """Whatever the ACLs are, even with codes that the daemon does not know."""
    settings = AuthorizerSettings(frozenset({"User:root"}), default)
    copy, snapshot = Copy(STALE), with_rules(EMPTY_SNAPSHOT, rules)  # type: ignore[arg-type]
    for number, batch in enumerate(log):
        if number > start:
            copy.apply(list_changes(snapshot, batch.changes, batch.last_offset), number)
        snapshot = at_offset(apply_changes(snapshot, batch.changes), batch.last_offset)
        if number == start:
            copy.apply(list_all(snapshot), number)
        if number >= start:
            state = DaemonState(snapshot.version, settings, snapshot.rules, None)
            copy.note_state(state, number)
            assert copy.view is not None
            assert copy.view.deadline == number + STALE
            for question in asked:
                mine = is_allowed(copy.view.snapshot, copy.view.settings, question)
                assert mine == is_allowed(snapshot, settings, question)


def test_acls_with_different_unknown_codes_are_different() -> None:
    """A listing calls both of them UNKNOWN."""
    snapshot = snapshot_of(*(acl("User:a", code, topic="t") for code in (100, 101)))
    copy = Copy(STALE)
    copy.apply(list_all(snapshot), 0)
    copy.note_state(state_of(snapshot), 1)
    assert deadline_of(copy) == 11


def deadline_of(copy: Copy) -> float | None:
    """Return until when a copy decides; None if it does not."""
    return None if copy.view is None or copy.view.deadline < 0 else copy.view.deadline


def add_second() -> Changes:
    ((acl_id, each),) = dict(TWO.acls).items() - dict(ONE.acls).items()
    return Changes(1, (AclChange(True, write_id(acl_id), list_acl(each)),))


LISTING, ADDED, STOP, GO = list_all(ONE), add_second(), Suspended("why"), Resumed()
REMOVED = Changes(2, (ADDED.changes[0]._replace(is_added=False),))
Step = tuple[float, object]
"""A time, and an event, or the state of a daemon that was asked at this time."""


@pytest.mark.parametrize(
    ("steps", "deadline"),
    [
        pytest.param([(0, LISTING)], None, id="a listing without contact"),
        pytest.param([(0, state_of(ONE))], None, id="contact without a listing"),
        pytest.param([(0, LISTING), (1, state_of(ONE))], 11, id="both"),
        pytest.param([(1, state_of(ONE)), (5, LISTING)], 11, id="contact before the listing"),
        pytest.param([(0, LISTING), (1, state_of(ONE, 3))], 4, id="a daemon with a stricter limit"),
        pytest.param([(0, LISTING), (1, state_of(ONE, 30))], 11, id="a daemon with a longer limit"),
        pytest.param([(0, LISTING), (1, state_of(ONE)), (2, state_of(TWO))], 11,
                     id="changes that have not arrived are no contact"),
        pytest.param([(0, LISTING), (1, state_of(ONE)), (2, state_of(TWO)), (3, ADDED)], 12,
                     id="contact counts from its question, once the changes have arrived"),
        pytest.param([(0, LISTING), (2, ADDED), (1, state_of(ONE))], 11,
                     id="an answer that a change has overtaken"),
        pytest.param([(0, LISTING), (1, ADDED), (2, state_of(TWO)), (3, state_of(ONE))], 12,
                     id="a daemon that is behind the copy"),
        pytest.param([(0, LISTING), (1, state_of(ONE)), (2, ADDED)], 11,
                     id="a change without an answer that names it"),
        pytest.param([(0, LISTING), (1, ADDED), (2, REMOVED), (3, state_of(ONE))], 13,
                     id="a change that was undone"),
        pytest.param([(0, LISTING), (1, ADDED), (2, REMOVED), (3, ADDED), (4, state_of(TWO))], 14,
                     id="a change that was undone and made again"),
        pytest.param([(0, LISTING), (1, state_of(EMPTY_SNAPSHOT))], None, id="another daemon"),
        pytest.param([(0, LISTING), (1, state_of(ONE)), (2, STOP)], None, id="suspended"),
        pytest.param([(0, LISTING), (2, STOP), (3, state_of(ONE))], None, id="while suspended"),
        pytest.param([(0, LISTING), (1, state_of(ONE)), (2, STOP), (3, GO)], None,
                     id="resumed without contact"),
        pytest.param([(0, LISTING), (2, STOP), (4, GO), (3, state_of(ONE))], None,
                     id="an answer from before decisions resumed"),
        pytest.param([(0, LISTING), (2, STOP), (3, GO), (4, state_of(ONE))], 14, id="resumed"),
    ],
)  # fmt: skip
def test_copy_decides_until(steps: list[Step], deadline: float | None) -> None:
    copy = Copy(STALE)
    for at, step in steps:
        if isinstance(step, DaemonState):
            copy.note_state(step, at)
        else:
            copy.apply(step, at)  # type: ignore[arg-type]
    assert deadline_of(copy) == deadline


def test_new_acls_decide_with_the_settings_of_their_answer() -> None:
    """Otherwise a default that has ended would allow what an ACL kept from it until now."""
    copy = Copy(STALE)
    copy.apply(list_all(TWO), 0)
    copy.note_state(state_of(TWO, default=True), 1)
    copy.apply(REMOVED, 2)
    for asked_at, answer, shown, default in (
        (0, None, TWO, True), (3, state_of(TWO), TWO, False), (4, state_of(ONE), ONE, False),
        (5, state_of(TWO, default=True), ONE, False),
    ):  # fmt: skip
        if answer is not None:
            copy.note_state(answer, asked_at)
        assert copy.view is not None
        assert copy.view.snapshot.version == shown.version
        assert copy.view.settings.allow_everyone_if_no_acl_found is default


def test_versions_that_wait_for_an_answer_are_bounded() -> None:
    copy = Copy(STALE)
    copy.apply(LISTING, 0)
    for number in range(VERSIONS_MAX + 5):
        changes = [model.AclAdded((10 + number).to_bytes(16), acl(topic=f"t{number}"))]
        copy.apply(list_changes(ONE, changes, number), number)
    assert len(copy._versions) == VERSIONS_MAX
    assert copy.is_behind
    copy.note_state(state_of(ONE), 1)
    assert copy.view is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(ADDED, id="an ACL that is there already"),
        pytest.param(Changes(1, (AclChange(False, write_id(bytes(16)), ADDED.changes[0].acl),)),
                     id="the removal of an unknown ACL"),
        pytest.param(Changes(1, (ADDED.changes[0]._replace(id="short"),)), id="a wrong id"),
        pytest.param(
            Changes(1, (AclChange(True, write_id(bytes(16)),
                                  ADDED.changes[0].acl._replace(operation="FLY")),)),
            id="a wrong name",
        ),
    ],
)  # fmt: skip
def test_contradiction_ends_decisions_until_the_next_listing(changes: Changes) -> None:
    copy = Copy(STALE)
    copy.apply(list_all(TWO), 0)
    copy.note_state(state_of(TWO), 1)
    with pytest.raises(ProtocolError, match="contradicts"):
        copy.apply(changes, 2)
    copy.note_state(state_of(TWO), 3)
    assert copy.view is None
    with pytest.raises(ProtocolError, match="no listing"):
        copy.apply(ADDED, 4)
    copy.apply(list_all(TWO), 5)
    assert copy.view is None
    copy.note_state(state_of(TWO), 5)
    assert deadline_of(copy) == 15


GOOD = {
    "version": "00", "releases": ["4.3"], "super_users": ["User:a"], "valid_ms": None,
    "allow_everyone_if_no_acl_found": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"[" * 100_000,
        *(msgspec.json.encode(GOOD | {key: value}) for key, value in {
            "version": "0", "releases": ["4.5"], "super_users": None,
            "valid_ms": "1", "allow_everyone_if_no_acl_found": 1,
        }.items()),
        msgspec.json.encode(GOOD | {"releases": []}),
        *(msgspec.json.encode({key: GOOD[key] for key in GOOD if key != left}) for left in GOOD),
    ],
)  # fmt: skip
def test_state_that_is_not_understood_is_an_error(body: bytes) -> None:
    """Above all, unknown super users or an unknown release are not none."""
    assert read_state(msgspec.json.encode(GOOD | {"more": 1})).settings.super_users == {"User:a"}
    with pytest.raises(ProtocolError):
        read_state(body)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with daemon_with_tokens(tmp_path) as started:
        yield started


def mirror_of(daemon: DaemonProcess, stale_seconds: float = 30.0, **options: object) -> Mirror:
    address = f"http://{daemon.ready['decision_http']}"
    return Mirror(address, token="root.secret", stale_seconds=stale_seconds, **options)  # type: ignore[arg-type]


def allows(mirror: Mirror, principal: str) -> bool:
    return mirror.decide((principal, *ORDERS[1:]))


def test_mirror_follows_acls_and_settings(daemon: DaemonProcess, tmp_path: Path) -> None:
    admin = new_admin(daemon)
    create_acls(admin, binding())
    with mirror_of(daemon) as mirror:
        mirror.wait_until_ready(20)
        bob: AnyQuestion = ("User:bob", *ORDERS[1:])
        root: AnyQuestion = ("User:root", None, 3, 2, "x")
        assert mirror.decide_many([ORDERS, bob, root]) == [True, False, True]
        before = mirror.offset
        create_acls(admin, binding(principal="User:bob"))
        wait_until(lambda: allows(mirror, "User:bob"), "the grant arrives")
        assert mirror.offset > before >= 0
        delete_acls(admin, filter_of("orders"))
        wait_until(lambda: not allows(mirror, "User:alice"), "the removal arrives")
        assert not allows(mirror, "User:bob")
        file = tmp_path / "server.properties"
        file.write_text(file.read_text().replace("User:root", "User:root;User:eve"))
        daemon.reload()
        wait_until(lambda: allows(mirror, "User:eve"), "the super user is known")
        invalid: list[Any] = [
            ("alice", *ORDERS[1:]), (ORDERS[0], "host", *ORDERS[2:]), (*ORDERS[:4], ""),
            (*ORDERS[:2], "FLY", *ORDERS[3:]), (*ORDERS[:3], "ANY", "orders"), ORDERS[:4],
            ("User:*", *ORDERS[1:]), (*ORDERS[:2], [], *ORDERS[3:]), (None, *ORDERS[1:]),
        ]  # fmt: skip
        for question in invalid:
            with pytest.raises(InvalidQuestionError):
                mirror.decide(question)
    with pytest.raises(NotReadyError, match="closed"):
        mirror.decide(ORDERS)
    assert (mirror.offset, mirror.seconds_left) == (-1, 0)


def test_mirror_without_contact_stops(daemon: DaemonProcess) -> None:
    """While the daemon is paused, the watch's connection stays open, but nothing proves it."""
    with mirror_of(daemon, 1.0) as mirror:
        mirror.wait_until_ready(20)
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: mirror.seconds_left == 0, "the copy is stale")
            with pytest.raises(NotReadyError, match="v1/state"):
                mirror.decide(ORDERS)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        mirror.wait_until_ready(20)
        daemon.stop()
        wait_until(lambda: mirror.seconds_left == 0, "the copy is stale again")


def test_mirror_over_tls_uses_the_daemon_that_works(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    keys = authority.server_keys() | {"authorizerd.decision.http": "https://127.0.0.1:0"}
    with daemon_with_tokens(tmp_path, keys) as daemon:
        works = f"https://{daemon.ready['decision_http']}"
        addresses, trusted = [f"https://{closed_address()}", works], authority.client_context()
        with Mirror(addresses, token="root.secret", tls=trusted) as mirror:
            mirror.wait_until_ready(20)
            assert allows(mirror, "User:root")
        for options, why in (
            ({"token": "root.wrong", "tls": trusted}, "token"),
            ({"token": "other.secret", "tls": trusted}, "authorizerd.callers.read"),
            ({"token": "root.secret", "tls": ssl.create_default_context()}, "certificate"),
        ):
            with Mirror(works, **options) as refused:  # type: ignore[arg-type]
                problems = refused._problems
                wait_until(lambda: problems["contact"] != "", "the daemon has answered")  # noqa: B023
                with pytest.raises(NotReadyError, match=why):
                    refused.wait_until_ready(0)


def test_threads_of_a_mirror_survive_errors_of_any_kind() -> None:
    """Here, both fail to encode the name of the daemon, with a UnicodeError."""
    with Mirror("http://" + "a" * 64 + ":1") as mirror:
        problems = mirror._problems
        wait_until(lambda: all("label" in each for each in problems.values()), "both have failed")
        with pytest.raises(NotReadyError, match="label"):
            mirror.decide(ORDERS)


@pytest.mark.parametrize("stale_seconds", [0, -1, float("nan")])
def test_mirror_needs_a_limit(stale_seconds: float) -> None:
    with pytest.raises(ValueError, match="stale_seconds"):
        Mirror("http://127.0.0.1:1", stale_seconds=stale_seconds)


def encode_events(snapshot: AclSnapshot, log: list[model.ChangeBatch]) -> tuple[bytes, bytes]:
    """Return a listing's text, and that of a watch after it, as a daemon sends them."""
    lines = [
        encode_listing_begin(snapshot.offset),
        *(encode_listed(*each) for each in snapshot.acls.items()),
        encode_listing_end(len(snapshot.acls)),
        b"",
    ]
    known, events = dict(snapshot.acls), []
    for batch in log:
        known |= {each.id: each.acl for each in batch.changes if isinstance(each, model.AclAdded)}
        changes = [
            (isinstance(each, model.AclAdded), each.id, known[each.id]) for each in batch.changes
        ]
        events.append(encode_changes(batch.last_offset, changes, is_last=True))
    return b"\n".join(lines), b"".join(events)


def damage(text: bytes, chance: Random) -> bytes:
    """Return a text with a line that is missing, repeated, moved or cut, or without its end."""
    lines = text.splitlines(keepends=True)
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[to])
        case 2:
            lines.insert(to, lines.pop(at))
        case 3:
            lines[at] = lines[at][: chance.randrange(len(lines[at]))] + b"\n"
        case _:
            del lines[at:]
    return b"".join(lines)


def spread_ids(batch: model.ChangeBatch) -> model.ChangeBatch:
    """Return the changes with ids like Kafka's: sets of small numbers have equal combinations."""
    changes = [
        replace(change, id=blake2b(change.id, digest_size=16).digest()) for change in batch.changes
    ]
    return replace(batch, changes=tuple(changes))


def receive(follower: Follower, copy: Copy, body: bytes) -> None:
    for start in range(0, len(body), 512):
        if not follower.needs_connection:
            part = body[start : start + 512]
            for event in follower.receive_data(b"%x\r\n%b\r\n" % (len(part), part)):
                copy.apply(event, 0)


@given(log=logs(), parts=st.integers(0, 6), seed=st.integers(0, 2**32))
def test_damaged_answers_are_no_proof(log: list[model.ChangeBatch], parts: int, seed: int) -> None:
    """A copy that decides has all ACLs of the daemon, however the answers were damaged."""
    chance = Random(seed)
    log = list(map(spread_ids, log))
    begun = snapshot_after(log[:parts])
    final = apply_changes(begun, [each for batch in log[parts:] for each in batch.changes])
    final = at_offset(final, log[-1].last_offset if log else begun.offset)
    listing, events = encode_events(begun, log[parts:])
    for _ in range(DAMAGES):
        follower, copy = Follower(None), Copy(STALE)
        body = [listing, events]
        damaged = chance.randrange(2) if events else 0
        body[damaged] = damage(body[damaged], chance)
        with suppress(AuthorizerdError):
            for each in body:
                follower.begin(Address(None, "localhost", 1))
                follower.receive_data(HEAD)
                receive(follower, copy, each)
        copy.note_state(state_of(final), 1)
        if deadline_of(copy) is not None:
            assert copy.view is not None
            assert copy.view.snapshot.acls == final.acls
