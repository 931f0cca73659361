"""An import adds what a cluster lacks, DENYs first, and says what is done if a request fails."""

import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
import trio
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.updates import BYTES_PER_REQUEST_MAX, RECORDS_PER_REQUEST_MAX
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.errors import CommandError
from authorizerd.cli.transfer.cluster_place import (
    VISIBLE_SECONDS_MAX,
    ClusterPlace,
    Progress,
    create_acls,
    make_draft,
)
from authorizerd.cli.transfer.model import AclsFound, Written
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.management.batches import split_batches
from authorizerd.management.groups.claims import write_claims
from authorizerd.management.plan.errors import PlanError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.daemon.kafka_cluster import HANG_UP, SILENCE, KafkaCluster, KafkaNode, answer, described
from tests.support.acls import acl

ADDRESS = Address("broker", 9092)
PLACE = "kafka://broker:9092"
READ = acl("User:a", topic="t")
WRITE = acl("User:a", "WRITE", topic="t")
DENIED = acl("User:b", "WRITE", topic="t", deny=True)


def listing(*acls: Acl) -> SimpleNamespace:
    return described(
        *(
            SimpleNamespace(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.pattern_type,
                acls=(each,),
            )
            for each in acls
        )
    )


def created(*codes: int, text: str | None = None) -> SimpleNamespace:
    results = [SimpleNamespace(error_code=code, error_message=text) for code in codes]
    return answer(results=results)


@pytest.fixture
async def node(nursery: trio.Nursery) -> KafkaNode:
    return KafkaCluster(nursery).add(ADDRESS)


async def create(node: KafkaNode, *acls: Acl, progress: Progress | None = None) -> Written:
    settings = ClientSettings(bootstrap=[ADDRESS])
    with trio.fail_after(300):
        async with KafkaClient(settings, lambda _: None, node.cluster.connect) as client:
            reader = BrokerReader(client, "broker:9092", None, PLACE)
            return await create_acls(reader, acls, progress or Progress())


def requests(node: KafkaNode) -> list[str]:
    """Return the APIs asked for, without ApiVersions."""
    return [name.split()[0] for name in node.names if not name.startswith("API_VERSIONS")]


async def test_denials_are_acknowledged_before_the_first_allow_is_sent(node: KafkaNode) -> None:
    node.answers = [created(0), created(0, 0), listing(READ, WRITE, DENIED)]
    done = await create(node, READ, DENIED, WRITE)
    assert (done.count, done.requests, done.failure) == (3, 2, "")
    assert requests(node) == ["CREATE_ACLS", "CREATE_ACLS", "DESCRIBE_ACLS"]
    assert b"User:b" in node.asked[1].body
    assert b"User:b" not in node.asked[2].body


async def test_a_rejected_denial_stops_the_import_before_any_allow(node: KafkaNode) -> None:
    node.answers = [created(ErrorCode.INVALID_REQUEST, text="Invalid operation"), listing()]
    done = await create(node, READ, DENIED)
    assert requests(node) == ["CREATE_ACLS", "DESCRIBE_ACLS"]
    assert (done.count, done.requests) == (0, 1)
    assert done.failure == (
        f"the cluster rejects 1 ACL: {DENIED}: INVALID_REQUEST: Invalid operation\n"
        "the cluster now lists 0 of the 2 ACLs. Run the command again: it adds only what is missing"
    )


async def test_missing_right_changes_nothing_and_gets_advice(node: KafkaNode) -> None:
    node.answers = [created(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    with pytest.raises(CommandError, match="this client may not create ACLs") as raised:
        await create(node, READ)
    assert "--operation Alter --allow-principal 'PRINCIPAL'" in str(raised.value)
    assert str(raised.value).startswith(PLACE)
    assert requests(node) == ["CREATE_ACLS"]


async def test_lost_connection_is_followed_by_what_the_cluster_lists(
    node: KafkaNode, autojump_clock: trio.testing.MockClock
) -> None:
    """The second request is never answered; the cluster has carried it out in part."""
    del autojump_clock

    def list_at_last(request: KafkaRequest) -> object:
        return listing(DENIED, READ) if request.api_key is ApiKey.DESCRIBE_ACLS else HANG_UP

    node.answers = [created(0), *[list_at_last] * 40]
    done = await create(node, READ, DENIED, WRITE)
    assert (done.count, done.requests) == (2, 1)
    assert done.failure.startswith(f"{PLACE}: ")
    assert "the cluster now lists 2 of the 3 ACLs. Run the command again" in done.failure


async def test_what_is_unknown_is_said_if_the_cluster_never_comes_back(
    node: KafkaNode, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node.answers = [created(0), *[HANG_UP] * 80]
    done = await create(node, READ, DENIED, WRITE)
    assert (done.count, done.requests) == (1, 1)
    assert "1 of 3 ACLs were definitely created; it is not known whether the last request was" in (
        done.failure
    )


async def test_progress_is_known_if_the_import_is_interrupted(
    node: KafkaNode, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node.answers = [created(0), SILENCE]
    progress = Progress()
    with trio.move_on_after(5):
        await create(node, READ, DENIED, WRITE, progress=progress)
    assert (progress.created, progress.requests, progress.is_last_unknown) == (1, 1, True)


def test_interrupt_is_answered_with_what_is_certain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ClusterPlace, "run", interrupt)
    with ClusterPlace("broker:9092", None, PLACE).open() as opened:
        found = AclsFound((READ, DENIED))
        with pytest.raises(KeyboardInterrupt):
            opened.write(make_draft(found, []), found)
    assert capsys.readouterr().err == (
        "authorizerd: interrupted: 0 of 2 ACLs were definitely created. Run the command again: it "
        "adds only what is missing\n"
    )


async def test_listing_is_awaited_until_the_broker_has_caught_up(
    node: KafkaNode, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    node.answers = [created(0, 0), listing(), listing(READ), listing(READ, WRITE)]
    done = await create(node, READ, WRITE)
    assert (done.count, done.failure) == (2, "")


async def test_acl_that_is_never_listed_is_a_failure(
    node: KafkaNode, autojump_clock: trio.testing.MockClock
) -> None:
    node.answers = [created(0, 0), *[listing(READ)] * 200]
    started = autojump_clock.current_time()
    done = await create(node, READ, WRITE)
    assert autojump_clock.current_time() - started <= VISIBLE_SECONDS_MAX
    assert done.count == 1
    assert "does not list 1 of them after 30 s" in done.failure


async def test_answer_without_a_result_for_each_acl_is_a_failure(node: KafkaNode) -> None:
    node.answers = [created(0), listing(READ)]
    done = await create(node, READ, WRITE)
    assert "expected 2 results of CreateAcls, found 1" in done.failure
    assert done.count == 1


def test_only_missing_acls_are_written() -> None:
    unknown = Acl(2, "t", 3, "User:a", "*", 99, 3)
    draft = make_draft(AclsFound((READ, unknown, WRITE, DENIED)), [READ, unknown])
    assert (draft.new, draft.present, draft.losses) == ((DENIED, WRITE), 2, ())


@pytest.mark.parametrize(("lost", "reason"), [
    (Acl(2, "t", 3, "User:a", "*", 99, 3), "Invalid operation UNKNOWN"),
    (Acl(99, "t", 3, "User:a", "*", 3, 3), "Invalid resourceType UNKNOWN"),
    (Acl(2, "t", 9, "User:a", "*", 3, 3), "Invalid patternType UNKNOWN"),
    (Acl(2, "t", 3, "User:a", "*", 3, 9), "Invalid permissionType UNKNOWN"),
    (acl("alice", topic="t"), "no colon is present"),
    (acl("User:a", topic=""), "empty resource name"),
    (Acl(4, "other", 3, "User:a", "*", 3, 3), "The only valid name for the CLUSTER"),
    (acl("User:a", topic="t" * 32_768), "the name is longer than 32767 bytes"),
    (acl("User:" + "é" * 16_383, topic="t"), "the principal is longer than 32767 bytes"),
])  # fmt: skip
def test_acl_that_a_cluster_rejects_is_a_loss(lost: Acl, reason: str) -> None:
    draft = make_draft(AclsFound((READ, lost)), [])
    assert draft.new == (READ,)
    ((found),) = draft.losses
    assert found.acl == lost
    assert reason in found.reason


@pytest.mark.parametrize("kept", [
    acl("User:ANONYMOUS", topic="t", host="0:0:0:0:0:0:0:1"),
    acl("User:a", topic="pay-", pattern="PREFIXED", deny=True),
    acl("User:a, host=10.0.0.1", topic="t"),
    acl("User:" + "e" * 32_762, topic="t"),
])  # fmt: skip
def test_acl_that_a_cluster_accepts_is_kept(kept: Acl) -> None:
    assert make_draft(AclsFound((kept,)), []).losses == ()


def sizes(acls: Iterable[Acl]) -> list[int]:
    return [len(batch) for batch in split_batches(acls, lambda each: each)]


def test_no_batch_exceeds_what_one_request_may_change() -> None:
    many = [acl("User:a", topic=str(number)) for number in range(RECORDS_PER_REQUEST_MAX + 1)]
    assert sizes(many) == [RECORDS_PER_REQUEST_MAX, 1]
    long = [acl("User:a", topic=f"{number}{'x' * 30_000}") for number in range(600)]
    assert all(size * 30_000 < BYTES_PER_REQUEST_MAX for size in sizes(long))
    assert sum(sizes(long)) == 600
    assert sizes([]) == []


_NOW = time.time_ns() // 1_000_000
_GRANT = Grant(
    id="1", acl=READ, begin_ms=_NOW - 10, end_ms=_NOW + 10**9, author="User:ops", reason="why",
    acl_id=b"i" * 16,
)  # fmt: skip
_HERE = replace(_GRANT, acl_id=None)
_ENDED = replace(_GRANT, end_ms=_NOW - 5)
_WAITING = replace(_HERE, begin_ms=_NOW + 10**8, is_waiting=True)
_note = make_grant_note


@pytest.mark.parametrize(
    ("found", "present", "new", "present_count", "sentence"),
    [
        ([READ, _note(_GRANT)], [], {READ, _note(_HERE)}, 0, ""),
        ([_note(_WAITING)], [], {_note(_WAITING)}, 0, ""),
        # Nothing changes the end of what is there, or gives it one.
        ([READ, _note(_GRANT)], [READ], set(), 2, "has no end"),
        ([READ, _note(_GRANT)], [READ, _note(_HERE)], set(), 2, ""),
        ([READ], [READ, _note(_HERE)], set(), 1, ""),
        ([READ, WRITE, _note(_ENDED)], [], {WRITE}, 0, "has ended"),
    ],
)
def test_grants_are_imported_with_their_notes(
    found: list[Acl], present: list[Acl], new: set[Acl], present_count: int, sentence: str
) -> None:
    draft = make_draft(AclsFound(tuple(found)), present)
    assert (set(draft.new), draft.present) == (new, present_count)
    assert sentence in "".join(draft.notes)
    assert bool(sentence) is bool(draft.notes)


@pytest.mark.parametrize(
    ("present", "claimed"),
    [([], [READ, WRITE]), ([READ], [WRITE]), ([READ, WRITE], [])],
)
def test_only_imported_acls_of_groups_are_claimed(present: list[Acl], claimed: list[Acl]) -> None:
    """Otherwise, an ACL that somebody made by hand here would go with the group."""
    draft = make_draft(AclsFound((READ, WRITE, *write_claims("a", [READ, WRITE]))), present)
    assert set(draft.new) == {*claimed, *write_claims("a", claimed)}
    here = write_claims("a", present)
    draft = make_draft(AclsFound((READ, WRITE, *write_claims("a", [READ]))), [*present, *here])
    assert {*here, *write_claims("a", set(claimed) & {READ})} >= set(filter(is_note, draft.new))


def test_a_note_that_cannot_be_read_is_not_imported() -> None:
    damaged = replace(_note(_GRANT), resource_name="authorizerd-grant?")
    with pytest.raises(PlanError, match="cannot be read"):
        make_draft(AclsFound((READ, damaged)), [])


async def test_a_grant_and_its_note_are_sent_together(node: KafkaNode) -> None:
    """Somebody who ends grants has replaced the note by the time of the listing."""
    node.answers = [created(0), created(0, 0, 0), listing(READ, WRITE, DENIED, _note(_GRANT))]
    done = await create(node, DENIED, _note(_HERE), READ, WRITE)
    assert (done.count, done.requests, done.failure) == (4, 2, "")
    assert b"authorizerd-grant" not in node.asked[1].body
    assert b"authorizerd-grant" in node.asked[2].body
