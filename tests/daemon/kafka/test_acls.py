"""DescribeAcls, CreateAcls, DeleteAcls: from a request's bytes to its answer's bytes."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX, TOO_MANY_CREATED, TOO_MANY_REMOVED
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, RejectedUpdateError
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acls import TEXTS_BYTES_MAX, FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.daemon import kafka_service
from tests.daemon.kafka_service import ALICE, ANYTHING, KafkaService, Start, acl, on_cluster
from tests.support.authorizers import Plug

VERSIONS = [1, 2, 3]
NO_COLON = (
    "Could not parse principal from `alice` (no colon is present separating the principal type "
    "from the principal name)"
)
NOT_AUTHORIZED = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
LITERAL = acl("t", principal="User:a")
PREFIXED = acl("t", principal="User:a", pattern_type=PatternType.PREFIXED)
OTHER = acl("u", principal="User:b")


def invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def matched(result: FilterResult) -> list[Acl]:
    assert result.error is None
    return sorted((match.acl for match in result.matches), key=str)


@pytest.mark.parametrize("version", VERSIONS)
async def test_created_acl_is_described_and_deleted(service: KafkaService, version: int) -> None:
    """Every version except 0 carries all fields of an ACL."""
    acls = [LITERAL, PREFIXED, on_cluster(Operation.ALTER, PermissionType.DENY)]
    assert await service.create(acls, version=version) == [None] * 3
    assert await service.describe(version=version) == service.acls == set(acls)
    (deleted,) = await service.delete([ANYTHING], version=version)
    assert matched(deleted) == sorted(acls, key=str)
    assert service.acls == set()


V0_CREATE = bytes.fromhex(
    "00000001"  # one creation:
    "02 0001 74"  # TOPIC t, no pattern type
    "0006 557365723a61"  # User:a
    "0001 2a"  # from any host
    "03 03"  # READ, ALLOW
)
V0_CREATED = bytes.fromhex("00000000 00000001 0000 0000")
V0_FILTER = bytes.fromhex("01 ffff ffff ffff 01 01")  # no field restricts it
V0_MATCH = bytes.fromhex("02 0001 74 0006 557365723a61 0001 2a 03 03")
V0_DESCRIBED = bytes.fromhex(
    "00000000 0000 0000"  # no error, an empty text
    "00000001 02 0001 74"  # one resource: TOPIC t
    "00000001 0006 557365723a61 0001 2a 03 03"  # one entry
)
V0_DELETED = bytes.fromhex("00000000 00000001 0000 ffff 00000001 0000 ffff") + V0_MATCH
V0_DELETED_NOTHING = bytes.fromhex("00000000 00000001 0000 ffff 00000000")


async def test_version_0_creates_literals(service: KafkaService) -> None:
    """KIP-140's schema has no pattern type."""
    assert await service.raw(ApiKey.CREATE_ACLS, 0, V0_CREATE) == V0_CREATED
    assert service.acls == {LITERAL}


async def test_version_0_sees_and_deletes_only_literals(start: Start) -> None:
    """The pattern type is LITERAL, never ANY, even if the name is null."""
    service = await start(LITERAL, PREFIXED)
    assert await service.raw(ApiKey.DESCRIBE_ACLS, 0, V0_FILTER) == V0_DESCRIBED
    one_filter = b"\0\0\0\1" + V0_FILTER
    assert await service.raw(ApiKey.DELETE_ACLS, 0, one_filter) == V0_DELETED
    assert service.acls == {PREFIXED}
    assert await service.raw(ApiKey.DELETE_ACLS, 0, one_filter) == V0_DELETED_NOTHING


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (acl("x", resource_type=ResourceType.CLUSTER), "only valid name for the CLUSTER resource"),
        (acl(""), "Invalid empty resource name"),
        (acl(principal="alice"), NO_COLON),
        (acl(operation=99), "Invalid operation UNKNOWN"),
    ],
)
async def test_only_the_bad_item_is_refused(service: KafkaService, bad: Acl, text: str) -> None:
    """Only that item gets INVALID_REQUEST, with Kafka's text; the connection stays open."""
    first, error, last = await service.create([LITERAL, bad, OTHER])
    assert (first, last) == (None, None)
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST
    assert text in str(error.message)
    assert service.acls == {LITERAL, OTHER}


async def test_empty_request_gets_an_empty_answer(service: KafkaService) -> None:
    assert await service.create([]) == []
    assert await service.delete([]) == []
    assert service.running.log.batches == []


async def test_request_above_10_000_new_acls_is_refused_whole(service: KafkaService) -> None:
    """A request is one batch; every item gets POLICY_VIOLATION."""
    acls = [acl(str(number)) for number in range(RECORDS_PER_REQUEST_MAX + 1)]
    refused = ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CREATED)
    assert await service.create(acls) == [refused] * len(acls)
    assert service.acls == set()
    assert await service.create([acls[0]]) == [None]
    assert await service.create(acls) == [None] * len(acls)  # a duplicate does not count
    over = AclFilter(), AclFilter(resource_name="none")
    too_many = FilterResult(matches=[], error=invalid(TOO_MANY_REMOVED))
    assert await service.delete(over) == [too_many] * 2
    assert len(service.acls) == len(acls)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [0, 99, -1])
async def test_unknown_codes_in_filters_are_invalid(start: Start, version: int, code: int) -> None:
    """Describe reports it at the top, delete at the filter; the other filters take effect."""
    service = await start(LITERAL, OTHER)
    cases = {
        AclFilter(resource_type=code): "Unknown patternFilter.",
        AclFilter(pattern_type=code): "Unknown patternFilter.",
        AclFilter(operation=code): "Unknown entryFilter.",
        AclFilter(permission_type=code): "Unknown entryFilter.",
    }
    for wanted, text in cases.items():
        assert await service.describe(wanted, version=version) == invalid(text)
    results = await service.delete([*cases, AclFilter(principal="User:b")], version=version)
    assert [result.error for result in results] == [*map(invalid, cases.values()), None]
    assert service.acls == {LITERAL}


async def test_stored_unknown_codes_are_described_and_deleted(start: Start) -> None:
    """They match open filters, and keep their raw codes."""
    odd = acl("t", operation=99, permission_type=98)
    service = await start(odd)
    assert await service.describe() == {odd}
    (deleted,) = await service.delete([ANYTHING])
    assert deleted == FilterResult(matches=[MatchingAcl(acl=odd)])
    assert service.acls == set()


@pytest.mark.parametrize("version", VERSIONS)
async def test_caller_without_right_changes_and_sees_nothing(start: Start, version: int) -> None:
    """Each item, each filter, or the whole description gets CLUSTER_AUTHORIZATION_FAILED."""
    service = await start(LITERAL)
    assert (
        await service.create([OTHER, acl("")], version=version, principal=ALICE)
        == [NOT_AUTHORIZED] * 2
    )
    assert (
        await service.delete([ANYTHING] * 3, version=version, principal=ALICE)
        == [FilterResult(matches=[], error=NOT_AUTHORIZED)] * 3
    )
    assert await service.describe(version=version, principal=ALICE) == NOT_AUTHORIZED
    assert service.acls == {LITERAL}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("api_key", [ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS])
async def test_refused_request_gets_no_answer_many_times_its_size(
    service: KafkaService, version: int, api_key: ApiKey
) -> None:
    """After 1 MiB of texts, items get only codes. A request shorter than announced is invalid."""
    count = 100_000
    is_flexible = version >= 2
    head = wire.unsigned_varint(count + 1) if is_flexible else count.to_bytes(4, "big")
    body = head + bytes(10 * count)
    answer = await service.raw(api_key, version, body, principal=ALICE)
    assert answer.count(b"\0\x1f") >= count
    assert len(answer) < len(body) + TEXTS_BYTES_MAX
    with pytest.raises(DecodeError, match="100000 items announced"):
        await service.raw(api_key, version, body[: 5 * count], principal=ALICE)


@pytest.mark.parametrize(
    ("granted", "describes", "alters"),
    [
        (Operation.DESCRIBE, True, False),
        (Operation.ALTER, True, True),
        (Operation.ALL, True, True),
        (Operation.CLUSTER_ACTION, False, False),
    ],
)
async def test_cluster_describe_and_alter_are_required(
    start: Start, granted: Operation, describes: bool, alters: bool
) -> None:
    """ALTER implies DESCRIBE; no other operation implies either."""
    service = await start(on_cluster(granted))
    described = await service.describe(principal=ALICE)
    assert (described != NOT_AUTHORIZED) is describes
    assert (await service.create([OTHER], principal=ALICE) == [None]) is alters
    (deleted,) = await service.delete([AclFilter(principal="User:b")], principal=ALICE)
    assert (deleted.error is None) is alters


async def test_audit_lines_name_the_request(service: KafkaService) -> None:
    """Each request has one line, for the right that it needs. Denials are at level INFO."""
    await service.describe(principal=ALICE)
    await service.create([OTHER, LITERAL], principal=ALICE)
    await service.delete([ANYTHING])
    assert [
        (event.request_name, event.question.operation, event.question.host, event.level)
        for event in service.events
    ] == [
        ("DescribeAcls", Operation.DESCRIBE, "10.0.0.1", AuditLevel.INFO),
        ("CreateAcls", Operation.ALTER, "10.0.0.1", AuditLevel.INFO),
        ("DeleteAcls", Operation.ALTER, "10.0.0.1", AuditLevel.DEBUG),
    ]


@pytest.mark.usefixtures("autojump_clock")
async def test_finished_items_keep_their_result_after_a_timeout(service: KafkaService) -> None:
    """Pending ones get REQUEST_TIMED_OUT, but still take effect once the log continues."""
    with service.log_held():
        first, bad, last = await service.create([LITERAL, acl(""), OTHER])
        (deleted,) = await service.delete([ANYTHING])
    assert first is not None
    assert first.code == ErrorCode.REQUEST_TIMED_OUT
    assert "may still apply" in str(first.message)
    assert last == first
    assert bad == invalid("Invalid empty resource name")
    assert deleted == FilterResult(matches=[], error=first)
    assert trio.current_time() >= 60
    assert service.purgatory.requests_waiting == 0
    await wait_all_tasks_blocked()
    assert len(service.running.log.batches) == 2
    assert service.acls == set()


async def test_closed_queue_refuses_updates_and_describes(start: Start) -> None:
    service = await start(LITERAL)
    service.running.queue.close()
    await wait_all_tasks_blocked()
    refused = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the daemon is shutting down")
    assert await service.create([OTHER]) == [refused]
    assert await service.describe() == {LITERAL}


async def test_rejected_updates_keep_their_code_and_text(start: Start) -> None:
    """The code may be one that this daemon does not know."""

    class Rejecting(Plug):
        def create_acls(
            self, context: RequestContext, acls: Sequence[Acl]
        ) -> list[Completion[None]]:
            completions = [Completion[None]() for _ in acls]
            for number, completion in enumerate(completions):
                completion.fail(RejectedUpdateError(1000 + number, f"reason {number}"))
            return completions

    plug = Rejecting([True])
    service = await start(plug_in=lambda _: plug)
    assert await service.create([LITERAL, OTHER]) == [
        ApiError(1000, "reason 0"),
        ApiError(1001, "reason 1"),
    ]


async def test_log_error_fails_the_waiting_requests() -> None:
    """They get KAFKA_STORAGE_ERROR, since the outcome is unknown; then the daemon ends."""
    answers: list[ApiError | None] = []

    async def create() -> None:
        async with trio.open_nursery() as nursery:
            service = await kafka_service.start(nursery)
            service.running.log.error = OSError("no space left")
            with trio.CancelScope(shield=True):
                answers.extend(await service.create([LITERAL, acl("")]))

    with pytest.raises(ExceptionGroup) as ended:
        await create()
    assert ended.group_contains(LogWriteError)
    assert answers[0] is not None
    assert answers[0].code == ErrorCode.KAFKA_STORAGE_ERROR
    assert answers[1] == invalid("Invalid empty resource name")
