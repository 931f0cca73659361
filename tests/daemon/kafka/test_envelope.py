"""Envelope over the real handlers: whose rights count, and where errors are reported."""

import logging
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import Acl, AclFilter, Operation, PermissionType, ResourceType
from authorizerd.acl.steps import finish
from authorizerd.actors.authorizer import Action, Authentication, RequestContext
from authorizerd.config.values import SecurityProtocol
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
)
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX
from authorizerd.protocol.primitives import unsigned_varint
from tests.daemon.kafka_service import (
    ALICE,
    ANYTHING,
    CLUSTER_NAME,
    ROOT,
    KafkaService,
    Start,
    acl,
    on_cluster,
)
from tests.support.envelopes import ADDRESS, envelope, inner
from tests.support.kafka_principals import encode_principal
from tests.support.kio_codec import decode_response

BROKER = "User:broker"
CONTROLLER = "CONTROLLER"
HOST = "10.0.0.9"
MAY_FORWARD = Acl(
    ResourceType.CLUSTER,
    CLUSTER_NAME,
    3,
    BROKER,
    "*",
    Operation.CLUSTER_ACTION,
    PermissionType.ALLOW,
)
MAY_ALTER = on_cluster(Operation.ALTER)
REFUSED = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
NO_ENVELOPE = b"\xff\xff"
NOT_READY = [(0, ErrorCode.UNKNOWN_SERVER_ERROR), (1, ErrorCode.AUTHORIZER_NOT_READY)]

each_version = pytest.mark.parametrize("version", [0, 1])


def to_create(*acls: Acl, version: int = 3) -> bytes:
    tags = b"\0" if version >= 2 else b""
    return inner(ApiKey.CREATE_ACLS, version, encode_create_acls_request(version, acls), tags=tags)


def to_delete(*filters: AclFilter) -> bytes:
    return inner(ApiKey.DELETE_ACLS, 3, encode_delete_acls_request(3, filters))


async def forward_raw(
    service: KafkaService, body: bytes, *, version: int = 1, forwarder: str = BROKER
) -> Any:  # noqa: ANN401 - an entity of either version
    answered = await service.raw(
        ApiKey.ENVELOPE, version, body, principal=forwarder, listener_name=CONTROLLER
    )
    return finish(decode_response(ApiKey.ENVELOPE, version, answered))


async def forward(
    service: KafkaService,
    data: bytes,
    *,
    principal: str = ALICE,
    version: int = 1,
    forwarder: str = BROKER,
) -> Any:  # noqa: ANN401 - an entity of either version
    body = envelope(data, encode_principal(principal), ADDRESS, version=version)
    return await forward_raw(service, body, version=version, forwarder=forwarder)


def created(answer: Any, version: int = 3) -> list[ApiError | None]:  # noqa: ANN401 - an entity
    """Return the answer to a forwarded creation, after checking its header's version."""
    assert answer.error_code == ErrorCode.NONE
    header = b"\0\0\0\x2a" + (b"\0" if version >= 2 else b"")
    assert answer.response_data.startswith(header)
    return decode_create_acls_response(version, answer.response_data[len(header) :])


def deleted(answer: Any) -> list[FilterResult]:  # noqa: ANN401 - an entity
    assert answer.error_code == ErrorCode.NONE
    return decode_delete_acls_response(3, answer.response_data[5:])


@pytest.fixture
async def forwarding(start: Start) -> KafkaService:
    """Return a service where BROKER may forward requests, and ALICE may alter ACLs."""
    return await start(MAY_FORWARD, MAY_ALTER)


@each_version
async def test_cluster_action_is_checked_before_decoding(start: Start, version: int) -> None:
    """Even a malformed Envelope gets an outer CLUSTER_AUTHORIZATION_FAILED."""
    service = await start(MAY_ALTER)
    for body in (NO_ENVELOPE, envelope(to_create(acl()), version=version)):
        answer = await forward_raw(service, body, version=version, forwarder=ALICE)
        assert (answer.error_code, answer.response_data) == (31, None)
    assert [
        (event.question.principal, event.question.operation, event.request_name, event.level.name)
        for event in service.events
    ] == [(ALICE, Operation.CLUSTER_ACTION, "Envelope", "INFO")] * 2
    assert service.acls == {MAY_ALTER}


@pytest.mark.parametrize("inner_version", [1, 2, 3])
@each_version
async def test_creation_is_forwarded(
    forwarding: KafkaService, version: int, inner_version: int
) -> None:
    """It is answered with the response header of its own version, flexible or not."""
    data = to_create(acl(), version=inner_version)
    answer = await forward(forwarding, data, version=version)
    assert created(answer, inner_version) == [None]
    assert forwarding.acls == {MAY_FORWARD, MAY_ALTER, acl()}


async def test_deletion_is_forwarded(start: Start) -> None:
    service = await start(MAY_FORWARD, MAY_ALTER, acl())
    answer = await forward(service, to_delete(AclFilter(resource_name="orders"), ANYTHING))
    assert [len(result.matches) for result in deleted(answer)] == [1, 3]
    assert service.acls == set()


OUTER_ERRORS = {
    "bad address": (envelope(to_create(acl()), address=b"\x7f\0\1"), ErrorCode.INVALID_REQUEST),
    "other API": (envelope(inner(ApiKey.METADATA, 1, b"")), ErrorCode.INVALID_REQUEST),
    "inner body": (envelope(to_create(acl())[:-1]), ErrorCode.UNSUPPORTED_VERSION),
    "inner API": (envelope(inner(999, 1, b"")), ErrorCode.UNSUPPORTED_VERSION),
    "no principal": (envelope(to_create(acl()), None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
}


@pytest.mark.parametrize(("body", "code"), OUTER_ERRORS.values(), ids=OUTER_ERRORS)
@each_version
async def test_envelope_that_cannot_be_opened_gets_an_outer_error(
    forwarding: KafkaService,
    caplog: pytest.LogCaptureFixture,
    body: bytes,
    code: ErrorCode,
    version: int,
) -> None:
    """A bad address gets 42, an unparsable request 35, a bad principal 97. Details are logged."""
    caplog.set_level(logging.INFO)
    answer = await forward_raw(forwarding, body, version=version)
    assert (answer.error_code, answer.response_data) == (code, None)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"CONTROLLER: Envelope refused: {code.name}")
    assert forwarding.running.log.appends == []


async def test_malformed_envelope_ends_the_connection(start: Start) -> None:
    service = await start(MAY_FORWARD)
    with pytest.raises(DecodeError):
        await forward_raw(service, NO_ENVELOPE)


@each_version
async def test_unready_forwarder_gets_an_outer_error(unloaded: KafkaService, version: int) -> None:
    """The code is AUTHORIZER_NOT_READY, or -1 in version 0. Nothing is decoded."""
    for body in (NO_ENVELOPE, envelope(to_create(acl()), version=version)):
        answer = await forward_raw(unloaded, body, version=version)
        assert (answer.error_code, answer.response_data) == (dict(NOT_READY)[version], None)
    await unloaded.load()
    assert unloaded.acls == set()


@pytest.mark.parametrize(("version", "code"), NOT_READY)
@pytest.mark.parametrize("data", [to_create(acl(), acl("")), to_delete(ANYTHING)])
async def test_not_ready_inner_answer_is_an_outer_error(
    unloaded: KafkaService, version: int, code: ErrorCode, data: bytes
) -> None:
    """The forwarder, a super user, gets 801, or -1 in version 0, so that it tries again."""
    answer = await forward(unloaded, data, version=version, forwarder=ROOT)
    assert (answer.error_code, answer.response_data) == (code, None)
    await unloaded.load(acl("kept"))
    assert unloaded.acls == {acl("kept")}


@pytest.mark.parametrize(("version", "code"), NOT_READY)
async def test_not_ready_inner_check_is_an_outer_error(
    service: KafkaService, monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode
) -> None:
    """The authorizer serves everyone, but is not ready for this question."""

    def authorize(context: RequestContext, actions: list[Action]) -> list[bool]:
        if context.request_name == "Envelope":
            return [True] * len(actions)
        raise NotReadyError

    monkeypatch.setattr(service.authorizer, "authorize", authorize)
    answer = await forward(service, to_create(acl()), version=version)
    assert (answer.error_code, answer.response_data) == (code, None)


@pytest.mark.parametrize(("version", "code"), NOT_READY)
async def test_not_ready_for_the_inner_principal_is_an_outer_error(
    forwarding: KafkaService, monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode
) -> None:
    monkeypatch.setattr(forwarding.authorizer, "serves", lambda principal: principal != ALICE)
    answer = await forward(forwarding, to_create(acl()), version=version)
    assert (answer.error_code, answer.response_data) == (code, None)
    assert forwarding.running.log.appends == []


async def test_super_users_are_forwarded_before_loading(unloaded: KafkaService) -> None:
    """Their requests wait for the ACLs, as if they had been sent here directly."""
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await forward(unloaded, to_create(acl()), principal=ROOT, forwarder=ROOT))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await wait_all_tasks_blocked()
        assert answers == []
        await unloaded.load()
    assert created(answers[0]) == [None]


@each_version
async def test_other_inner_errors_stay_inside(forwarding: KafkaService, version: int) -> None:
    """The outer code is 0, whether one item has an error or all of them are refused."""
    answer = await forward(forwarding, to_create(acl(""), acl()), version=version)
    bad, good = created(answer)
    assert bad == ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    assert good is None
    answer = await forward(forwarding, to_create(acl("b"), acl("c")), principal=BROKER)
    assert created(answer) == [REFUSED] * 2


async def test_inner_principals_rights_count(start: Start) -> None:
    """A super user's Envelope neither gives nor takes rights."""
    service = await start(MAY_FORWARD)
    for principal in (ALICE, BROKER, "User:*"):
        answer = await forward(service, to_create(acl()), principal=principal, forwarder=ROOT)
        assert created(answer) == [REFUSED]
    assert service.acls == {MAY_FORWARD}
    assert created(await forward(service, to_create(acl()), principal=ROOT)) == [None]


async def test_inner_host_counts(start: Start) -> None:
    for host, expected in ((HOST, None), ("10.0.0.1", REFUSED)):
        rule = Acl(ResourceType.CLUSTER, CLUSTER_NAME, 3, ALICE, host, Operation.ALTER, 3)
        service = await start(MAY_FORWARD, rule)
        assert created(await forward(service, to_create(acl()))) == [expected]


async def test_both_checks_are_audited(forwarding: KafkaService) -> None:
    """Each line has its own API, principal and host. The broker asks in both."""
    await forward(forwarding, to_create(acl()))
    assert [
        (event.request_name, event.question.principal, event.question.host)
        for event in forwarding.events
    ] == [("Envelope", BROKER, "10.0.0.1"), ("CreateAcls", ALICE, HOST)]
    broker = AuditedCaller("certificate", BROKER, "10.0.0.1")
    assert [event.caller for event in forwarding.events] == [broker, broker]


async def test_authorizer_gets_the_context_of_the_inner_request(
    service: KafkaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener is this one; what is the request's own is the inner request's."""
    seen: list[RequestContext] = []

    def authorize(context: RequestContext, actions: object) -> list[bool]:
        seen.append(context)
        return [True]

    monkeypatch.setattr(service.authorizer, "authorize", authorize)
    await forward(service, to_create(acl()))
    outer = RequestContext(
        principal=BROKER,
        host="10.0.0.1",
        request_name="Envelope",
        listener_name=CONTROLLER,
        client_id="tests",
        correlation_id=1,
        security_protocol=SecurityProtocol.SSL,
        request_type=58,
        request_version=1,
        authentication=Authentication.CERTIFICATE,
    )
    assert seen == [
        outer,
        RequestContext(
            principal=ALICE,
            host=HOST,
            request_name="CreateAcls",
            listener_name=CONTROLLER,
            client_id="client-1",
            correlation_id=42,
            security_protocol=SecurityProtocol.SSL,
            request_type=30,
            request_version=3,
            authentication=Authentication.FORWARDED,
            requester=outer,
        ),
    ]


async def test_forwarded_request_waits_in_purgatory(forwarding: KafkaService) -> None:
    """Its wait is the remote time of its own API, as in Kafka."""
    async with trio.open_nursery() as asking:
        with forwarding.log_held():
            asking.start_soon(forward, forwarding, to_create(acl(), acl("b")))
            await wait_all_tasks_blocked()
            assert forwarding.purgatory.requests_waiting == 1
    assert forwarding.purgatory.requests_waiting == 0
    assert set(forwarding.times.remote) == {"CreateAcls"}
    assert forwarding.times.remote["CreateAcls"].sum_s > 0


async def test_envelope_with_an_outer_error_counts_as_envelope(
    unloaded: KafkaService, forwarding: KafkaService
) -> None:
    """No inner request was answered."""
    await forward_raw(forwarding, OUTER_ERRORS["inner API"][0])
    await forward(forwarding, to_create(acl()), forwarder=ALICE)
    await forward(unloaded, to_create(acl()), forwarder=ROOT)
    assert set(forwarding.times.local) == set(unloaded.times.local) == {"Envelope"}


@pytest.mark.usefixtures("autojump_clock")
async def test_timeout_is_an_inner_error(forwarding: KafkaService) -> None:
    with forwarding.log_held():
        (late,) = created(await forward(forwarding, to_create(acl())))
    assert late is not None
    assert late.code == ErrorCode.REQUEST_TIMED_OUT


async def test_inner_request_with_too_many_items_is_unparsable(start: Start) -> None:
    """The client is at fault, not the forwarder."""
    service = await start(MAY_FORWARD)
    count = REQUEST_ITEMS_MAX + 1
    topics = unsigned_varint(count + 1) + bytes.fromhex("01 01 00") * count + b"\0"
    answer = await forward_raw(service, envelope(inner(ApiKey.DESCRIBE_QUORUM, 2, topics)))
    assert (answer.error_code, answer.response_data) == (ErrorCode.UNSUPPORTED_VERSION, None)
