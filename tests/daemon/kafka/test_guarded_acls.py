"""ACL requests with our tagged field: what they change, and what their answers tell."""

from collections.abc import Iterator, Sequence

import pytest
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.expected_offset import ANY_OFFSET
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.protocol.kafka.acl_client import encode_describe_acls_request, read_placed_listing
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.daemon.kafka_service import ALICE, ANYTHING, ROOT, KafkaService, Start, acl
from tests.support.acl_messages import (
    decode_created,
    decode_deleted,
    encode_creations,
    encode_deletions,
)
from tests.support.authorizers import Plug

A, B = acl("a"), acl("b")
VERSIONS = [2, 3]


async def create(
    service: KafkaService,
    acls: Sequence[Acl],
    expected: int | None,
    *,
    version: int = 3,
    principal: str = ROOT,
) -> tuple[list[ApiError | None], int | None]:
    body = bytes(finish(encode_creations(version, acls, expected)))
    answer = await service.raw(ApiKey.CREATE_ACLS, version, body, principal=principal)
    return finish(decode_created(version, answer, len(acls)))


async def delete(
    service: KafkaService, filters: Sequence[AclFilter], expected: int | None, version: int = 3
) -> tuple[list[FilterResult], int | None]:
    body = bytes(finish(encode_deletions(version, filters, expected)))
    answer = await service.raw(ApiKey.DELETE_ACLS, version, body)
    return finish(decode_deleted(version, answer, len(filters)))


async def find_offset(service: KafkaService, version: int = 3) -> int | None:
    asked = encode_describe_acls_request(version, ANYTHING, asks_offset=True)
    answer = await service.raw(ApiKey.DESCRIBE_ACLS, version, asked)
    listing, offset = read_placed_listing(version, answer)
    assert {each for _, each in listing.items()} == service.acls
    return offset


@pytest.mark.parametrize("version", VERSIONS)
async def test_offset_of_each_answer_fits_the_next_request(start: Start, version: int) -> None:
    service = await start(A)
    listed = await find_offset(service, version)
    assert listed == 1
    errors, created = await create(service, [B], listed, version=version)
    assert (errors, created) == ([None], 2)
    [result], deleted = await delete(service, [ANYTHING], created, version)
    assert (result.error, deleted) == (None, 4)
    assert service.acls == set()
    assert await find_offset(service, version) == 4


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_that_expects_an_older_state_is_refused(start: Start, version: int) -> None:
    service = await start(A)
    await service.create([B])
    text = (
        "The ACLs have changed: expected no change after offset 1, but the last one is at offset 2."
        " Nothing was changed."
    )
    moved = ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
    unwanted = acl("c")
    assert await create(service, [unwanted, A], 1, version=version) == ([moved, moved], None)
    [result], offset = await delete(service, [ANYTHING], 1, version)
    assert (result.error, [*result.matches], offset) == (moved, [], None)
    assert service.acls == {A, B}


async def test_answers_without_the_field_stay_those_of_a_broker(service: KafkaService) -> None:
    """Nobody who has not asked gets a tagged field."""
    answers = []
    for expected in (None, -1):
        requests = {
            ApiKey.CREATE_ACLS: bytes(finish(encode_creations(3, [A], expected))),
            ApiKey.DESCRIBE_ACLS: encode_describe_acls_request(
                3, ANYTHING, asks_offset=expected is not None
            ),
            ApiKey.DELETE_ACLS: bytes(finish(encode_deletions(3, [ANYTHING], expected))),
        }
        answers.append([await service.raw(key, 3, body) for key, body in requests.items()])
    for without, with_field in zip(*answers, strict=True):
        assert without.endswith(b"\0")
        assert with_field[: len(without) - 1] == without[:-1]
        assert with_field[len(without) - 1] == 1


async def test_caller_without_the_right_learns_no_offset(start: Start) -> None:
    service = await start(A)
    [error], offset = await create(service, [B], 1, principal=ALICE)
    assert error is not None
    assert (error.code, offset) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


@pytest.mark.usefixtures("autojump_clock")
async def test_change_that_is_not_durable_in_time_tells_no_offset(start: Start) -> None:
    service = await start(A)
    with service.log_held():
        [error], offset = await create(service, [B], 1)
        assert error is not None
        assert (error.code, offset) == (ErrorCode.REQUEST_TIMED_OUT, None)
    await wait_all_tasks_blocked()
    assert service.acls == {A, B}


async def check_nothing_is_promised(service: KafkaService) -> None:
    """A server that cannot check an offset does not take requests that expect one."""
    before = service.acls
    assert await find_offset(service) is None
    [error], offset = await create(service, [B], 1)
    assert error is not None
    assert (error.code, offset) == (ErrorCode.INVALID_REQUEST, None)
    assert "cannot compare the expected offset" in (error.message or "")
    [result], offset = await delete(service, [ANYTHING], 1)
    assert result.error == error
    assert offset is None
    assert service.acls == before


async def test_follower_rejects_requests_that_expect_an_offset(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster's ACLs may change between its own check and the cluster's."""
    service = await start(A)
    monkeypatch.setattr(UpdateQueue, "checks_guards", False)
    await check_nothing_is_promised(service)
    assert (await create(service, [B], None))[0] == [None]


class Wrapper(Plug):
    """A custom authorizer that passes every change to the built-in one."""

    def __init__(self, built_in: Authorizer) -> None:
        super().__init__()
        self.built_in = built_in

    def authorize(self, *args: object) -> list[bool]:
        return [True]

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        return self.built_in.acls(filter)

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        return self.built_in.create_acls(context, acls)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return self.built_in.delete_acls(context, filters)


class GuardingWrapper(Wrapper):
    """One that also says which state it lists."""

    offset: object = None

    def acl_offset(self) -> int | None:
        if self.offset is None:
            return self.built_in.acl_offset()
        if isinstance(self.offset, Exception):
            raise self.offset
        return self.offset  # type: ignore[return-value]  # a fault of the authorizer


async def test_custom_authorizer_checks_no_offset_by_default(start: Start) -> None:
    """KIP-504's interface has no such condition, so an authorizer need not know it."""
    service = await start(A, plug_in=Wrapper)
    await check_nothing_is_promised(service)
    errors, offset = await create(service, [B], ANY_OFFSET)
    assert (errors, offset) == ([None], 2), "the built-in authorizer has set it"


async def test_custom_authorizer_can_pass_the_condition_on(start: Start) -> None:
    service = await start(A, plug_in=GuardingWrapper)
    assert await find_offset(service) == 1
    assert await create(service, [B], 1) == ([None], 2)
    [error], _ = await create(service, [acl("c")], 1)
    assert error is not None
    assert error.code == ErrorCode.INVALID_UPDATE_VERSION
    assert service.acls == {A, B}


@pytest.mark.parametrize("offset", [RuntimeError("oops"), "7", -1, 2**63])
async def test_faulty_offset_of_an_authorizer_counts_as_none(start: Start, offset: object) -> None:
    wrappers: list[GuardingWrapper] = []

    def plug_in(built_in: Authorizer) -> Authorizer:
        wrappers.append(GuardingWrapper(built_in))
        wrappers[0].offset = offset
        return wrappers[0]

    service = await start(A, plug_in=plug_in)
    await check_nothing_is_promised(service)
    assert service.faults
