"""``acls grant`` and ``acls grants``: flags, races, and a real daemon."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.cli.change.apply_server import Answered, Unanswered
from authorizerd.cli.change.apply_server import Listed as ListedAcls
from authorizerd.cli.commands import new_acls_parser
from authorizerd.cli.errors import CommandError
from authorizerd.cli.grants.arguments import read_grant_request
from authorizerd.cli.grants.changes import GrantRequest, RefusedError
from authorizerd.cli.grants.command import Granting
from authorizerd.management.formats.document import write_json_document
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.cli.change.acl_servers import Answer, MemoryServer
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.printed import Printed, run_main

_ACL, _OTHER = acl("User:alice", "READ", topic="orders"), acl("User:bob", "READ", topic="orders")
_NOW = 1_000_000_000_000
_END = _NOW + 3_600_000
_ALICE = "--principal User:alice --operation read --topic orders"
_NEW = f"{_ALICE} --for 2h --reason INC-123 --by User:ops"
_HOUR, _DAY = 3_600_000, 86_400_000


def _parse(words: str) -> GrantRequest:
    given = new_acls_parser().parse_words(["grant", *words.split(), "--bootstrap-server", "x:1"])
    return read_grant_request(given, _NOW)


@pytest.mark.parametrize(
    ("flags", "begin_ms", "end_ms"),
    [
        ("--for 2h", None, _NOW + 2 * _HOUR),
        ("--for 1d12h30m", None, _NOW + _DAY + 12 * _HOUR + 1_800_000),
        ("--for 90s", None, _NOW + 90_000),
        ("--until 2001-09-09T04:46:40+01:00", None, _NOW + 2 * _HOUR),
        ("--in 30m --for 2h", _NOW + 1_800_000, _NOW + 1_800_000 + 2 * _HOUR),
        ("--from 2001-09-09T02:46:40Z --for 2h", _NOW + _HOUR, _NOW + 3 * _HOUR),
        (f"--from {_NOW + 1} --until {_NOW + 2}", _NOW + 1, _NOW + 2),
    ],
)
def test_times(flags: str, begin_ms: int | None, end_ms: int) -> None:
    request = _parse(f"{_ALICE} --reason x {flags}")
    assert (request.begin_ms, request.end_ms) == (begin_ms, end_ms)
    assert request.acls == (_ACL,)


def test_flags_are_combined() -> None:
    request = _parse(
        f"{_NEW} --principal User:bob --operation describe --group g --cluster --host 10.0.0.1 "
        "--deny --resource-pattern-type prefixed"
    )
    assert len(request.acls) == 2 * 2 * 3
    prefixed = acl(
        "User:bob", "DESCRIBE", group="g", host="10.0.0.1", deny=True, pattern="PREFIXED"
    )
    assert prefixed in request.acls
    assert acl("User:bob", "READ", cluster=True, host="10.0.0.1", deny=True) in request.acls


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"{_ALICE} --reason x", "--for or --until: expected with a new grant"),
        (f"{_ALICE} --for 2h", "--reason: expected with a new grant"),
        (f"{_ALICE} --for 2h --reason= ", "--reason: expected a text"),
        (f"{_ALICE} --for 2h --reason x --by=", "--by: expected a text"),
        (f"{_ALICE} --for 2 --reason x", "expected a duration"),
        (f"{_ALICE} --for 0h --reason x", "expected a duration"),
        (f"{_ALICE} --for 2h --until 2040-01-01T00:00:00Z --reason x", "not allowed with"),
        (f"{_ALICE} --until 2806 --reason x", "--until: expected a time"),
        (f"{_ALICE} --until tomorrow --reason x", "--until: expected a time"),
        (f"{_ALICE} --until 2040-01-01T00:00:00 --reason x", "has no time zone"),
        (f"{_ALICE} --until 2001-01-01T00:00:00Z --reason x", "in the future"),
        (f"{_ALICE} --from 2001-01-01T00:00:00Z --for 1h --reason x", "in the future"),
        (f"{_ALICE} --in 2h --until {_NOW + 1} --reason x", "after the begin"),
        (f"{_ALICE} --for 3700d --reason x", "at most 10 years"),
        (f"{_ALICE} --extend", "--for or --until: expected with --extend"),
        (f"{_ALICE} --extend --for 2h --in 1h", "--from or --in: not possible with --extend"),
        (f"{_ALICE} --permanent --for 2h", "--for or --until: not possible with --permanent"),
        (f"{_ALICE} --revoke --by User:x", "--by: not possible with --revoke"),
        (f"{_ALICE} --revoke --extend --for 2h", "not allowed with"),
        ("--principal User:alice --operation read --for 2h --reason x", "expected a resource"),
        ("--principal alice --operation read --topic t --for 2h --reason x", "Type:name"),
        ("--principal User:a --operation raed --topic t --for 2h --reason x", "mean READ"),
        (
            "--principal Authorizerd:note --operation read --topic t --for 2h --reason x",
            "a note cannot be granted",
        ),
        (f"{_NEW} --log-dir x", "start the daemon of this log"),
        (
            f"{_NEW} {' '.join(f'--host 10.0.{i}.{j}' for i in range(26) for j in range(40))}",
            "at most 1000 grants at once, found 1040",
        ),
    ],
)
def test_invalid_flags_are_rejected(
    words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _parse(words)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def _refuse(text: str) -> None:
    raise AssertionError(text)


_REQUEST = GrantRequest(refuse=_refuse, acls=(_ACL,), end_ms=_END, reason="why")  # type: ignore[arg-type]


def _run(server: MemoryServer, request: GrantRequest = _REQUEST) -> None:
    granting = Granting(request, server, "User:ops", lambda: _NOW / 1000)
    trio.run(granting.run, clock=MockClock(autojump_threshold=0))


def _grants(server: MemoryServer) -> tuple[Grant, ...]:
    return read_grants(server.acls.values()).grants


@pytest.mark.parametrize("compares", [True, False])
def test_a_grant_and_its_note_are_one_request(compares: bool) -> None:
    server = MemoryServer.of([_OTHER], compares=compares)
    _run(server, replace(_REQUEST, acls=(_ACL, replace(_ACL, resource_name="t"))))
    [(sent, offset)] = server.sent
    assert [is_note(each) for each in sent.acls] == [False, True, False, True]
    assert offset == (10 if compares else None)
    [grant, _] = _grants(server)
    assert grant == Grant(
        id=grant.id, acl=_ACL, begin_ms=_NOW, end_ms=_END, author="User:ops", reason="why"
    )
    with pytest.raises(RefusedError, match="use --extend"):
        _run(server)


def test_a_note_whose_acl_was_deleted_goes_first() -> None:
    stale = Grant(
        id="1", acl=_ACL, begin_ms=_NOW, end_ms=_END + 1, author="User:eve", reason="first"
    )
    server = MemoryServer.of([make_grant_note(stale)], compares=True)
    _run(server)
    assert [request.is_creation for request, _ in server.sent] == [False, True]
    assert [grant.end_ms for grant in _grants(server)] == [_END]


def test_a_note_that_is_written_again_is_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody was about to add the id of the ACL when it was made permanent."""
    grant = Grant(id="1", acl=_ACL, begin_ms=_NOW, end_ms=_END, author="User:eve", reason="first")
    server = MemoryServer.of([_ACL, make_grant_note(grant)], compares=False)
    known = make_grant_note(replace(grant, acl_id=b"i" * 16))
    list_acls = server.list_acls

    async def list_later() -> ListedAcls:
        if server.listings == 2:  # after the one that showed the deletion
            server.acls = {**server.acls, derive_id(known): known}
        return await list_acls()

    monkeypatch.setattr(server, "list_acls", list_later)
    _run(server, replace(_REQUEST, action="permanent"))
    assert list(server.acls.values()) == [_ACL]
    assert [request.acls for request, _ in server.sent] == [(make_grant_note(grant),), (known,)]


def test_a_later_begin_is_only_a_note() -> None:
    server = MemoryServer.of([], compares=True)
    _run(server, replace(_REQUEST, begin_ms=_NOW + 1))
    [grant] = _grants(server)
    assert grant.is_waiting
    assert len(server.acls) == 1


def _add(server: MemoryServer, *acls: Acl) -> Callable[[Callable[[], Answer]], Answer]:
    """Return a fault: someone else creates these ACLs right before the request."""

    def add(apply: Callable[[], Answer]) -> Answer:
        server.acls |= {derive_id(each): each for each in acls}
        if server.offset is not None:
            server.offset = server.changed_at = server.offset + 1
        return apply()

    return add


def test_an_acl_that_someone_else_makes_meanwhile_is_not_granted() -> None:
    server = MemoryServer.of([], compares=True)
    server.faults = [_add(server, _ACL)]
    with pytest.raises(CommandError, match="exists without an end"):
        _run(server)
    assert list(server.acls.values()) == [_ACL]


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize("action", ["make", "extend", "permanent", "revoke"])
def test_other_changes_meanwhile_do_not_matter(action: str, compares: bool) -> None:
    before = Grant(
        id="1", acl=_ACL, begin_ms=_NOW, end_ms=_END - 1, author="User:eve", reason="first"
    )
    present = [] if action == "make" else [_ACL, make_grant_note(before)]
    server = MemoryServer.of(present, compares=compares)
    server.faults = [_add(server, _OTHER)]
    _run(server, replace(_REQUEST, action=action))
    after = set(server.acls.values())
    assert _OTHER in after
    assert (_ACL in after) is (action != "revoke")
    ends = [grant.end_ms for grant in _grants(server)]
    assert ends == ([_END] if action in ("make", "extend") else [])


def test_a_lost_answer_is_found_out() -> None:
    server = MemoryServer.of([], compares=False)

    def lose(apply: Callable[[], Answer]) -> Answer:
        apply()
        return Unanswered("timed out")

    server.faults = [lose]
    _run(server)
    assert len(_grants(server)) == 1


@pytest.mark.parametrize(
    "refusal", [Answered((ApiError(ErrorCode.NOT_CONTROLLER),)), Unanswered("lost")]
)
def test_an_acl_whose_note_is_refused_may_stay_only_with_a_word(refusal: Answer) -> None:
    server = MemoryServer.of([], compares=False)
    error = ApiError(ErrorCode.INVALID_REQUEST, "unknown resource type")

    def refuse(apply: Callable[[], Answer]) -> Answer:
        apply()
        server.acls = {key: each for key, each in server.acls.items() if not is_note(each)}
        return Answered((error,))

    server.faults = [refuse, lambda _: refusal]
    with pytest.raises(CommandError, match="may be there without an end"):
        _run(server)


def test_an_acl_whose_note_is_refused_does_not_stay() -> None:
    """A server that knows no delegation tokens refuses the note and creates the ACL."""
    server = MemoryServer.of([_OTHER], compares=False)

    def refuse(apply: Callable[[], Answer]) -> Answer:
        apply()
        server.acls = {key: each for key, each in server.acls.items() if not is_note(each)}
        return Answered((ApiError(ErrorCode.INVALID_REQUEST, "unknown resource type"),))

    server.faults = [refuse]
    with pytest.raises(CommandError, match=r"unknown resource type\n.*deleted again"):
        _run(server)
    assert list(server.acls.values()) == [_OTHER]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("grants")
    with running(folder, new_log(folder), super_users="User:ANONYMOUS") as daemon:
        yield daemon


def test_a_daemon_has_grants(server: DaemonProcess, tmp_path: Path) -> None:
    address: str = server.ready["listeners"]["PLAINTEXT"]

    def grant(words: str, code: int = 0) -> Printed:
        return run_main("acls", "grant", *words.split(), "--bootstrap-server", address, code=code)

    def list_grants(*words: str) -> Printed:
        return run_main("acls", "grants", *words, "--bootstrap-server", address)

    by = "--by User:ops"
    assert "expected the author" in grant(f"{_ALICE} --for 2h --reason x", code=2).err
    made = grant(_NEW).out
    assert made.startswith("granted: READ on topic literal `orders` to User:alice until 20")
    assert made.endswith(" UTC, by User:ops: INC-123\n")
    refused = grant(_NEW, code=4).err
    assert "use --extend" in refused
    assert refused.endswith("nothing was changed\n")
    [row] = json.loads(list_grants("--json").out)["grants"]
    assert (row["state"], row["author"], row["has_acl"]) == ("active", "User:ops", True)
    extended = json.loads(grant(f"{_ALICE} {by} --extend --for 3h --json").out)
    assert extended["result"] == "extended"
    [later] = extended["grants"]
    assert later["id"] == row["id"]
    assert later["end"] > row["end"]
    assert grant(f"{_ALICE} --permanent").out == (
        "permanent: READ on topic literal `orders` to User:alice\n"
    )
    assert "exists without an end" in grant(f"{_ALICE} --revoke", code=4).err
    assert list_grants().out == "0 grants, as listed by " + f"{address}, with 1 ACL\n"
    bob = "--principal User:bob --operation read --topic orders"
    grant(f"{bob} {by} --in 1h --for 2h --reason later")
    assert re.match(
        r"  waiting until 20\S+ \S+ UTC  READ on topic literal `orders` to User:bob, from 20\S+ "
        r"\S+ UTC, by User:ops: later\n1 grant, as listed by",
        list_grants().out,
    )
    # A plan of a listing of now changes nothing.
    listing = tmp_path / "now.json"
    listing.write_text(run_main("acls", "--list", "--json", "--bootstrap-server", address).out)
    assert "nothing to do" in run_main("acls", "plan", listing, "--bootstrap-server", address).out
    grant(f"{bob} --revoke")
    removal = run_main(
        "acls", "remove", "--principal", "User:alice", "--force", "--bootstrap-server", address
    )
    assert "applied: 0 ACLs now" in removal.out


def test_grants_of_a_file(tmp_path: Path) -> None:
    grant = Grant(id="1", acl=_ACL, begin_ms=_NOW, end_ms=_END, author="User:ops", reason="why")
    note = make_grant_note(grant)
    damaged = replace(note, resource_name="authorizerd-grant?")
    path = tmp_path / "acls.json"
    path.write_text(write_json_document([note, damaged]).text)
    found = run_main("acls", "grants", "--acls", path).out
    assert (
        "  overdue until 2001-09-09 02:46:40 UTC  READ on topic literal `orders` to User:alice, "
        "whose ACL was deleted, since 2001-09-09 01:46:40 UTC, by User:ops: why\n"
    ) in found
    assert "\nthese notes cannot be read" in found
    assert str(damaged) in found
    document = json.loads(run_main("acls", "grants", "--json", "--acls", path).out)
    assert len(document["unreadable"]) == 1
    assert document["grants"][0]["has_acl"] is False
