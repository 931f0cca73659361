"""AUTHORIZER_NOT_READY before ACLs are loaded, rights by one state, and latencies."""

from uuid import UUID

import pytest
import trio
import trio.testing

from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.actors.authorizer import Authentication, RequestContext
from authorizerd.actors.record_applier import Suspend
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.kafka.permissions import Rights
from authorizerd.daemon.kafka.request_latency import BOUNDS_S, Histogram, RequestTimes
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.responses import BROKER_ENDPOINTS
from tests.daemon.cluster_requests import (
    COORDINATOR_VERSIONS,
    METADATA_VERSIONS,
    describe_cluster,
    find_coordinators,
    metadata,
    topic,
)
from tests.daemon.kafka_service import ALICE, ANYTHING, ROOT, KafkaService, Start, acl, on_cluster

NOT_READY = ErrorCode.AUTHORIZER_NOT_READY
REFUSED = ApiError(801, NOT_READY.text)
ACL_ANSWERS_V0 = {  # request body, then the answer's
    ApiKey.DESCRIBE_ACLS: (b"\x01" + b"\xff" * 6 + b"\x01\x01", bytes(4) + b"%s" + bytes(4)),
    ApiKey.CREATE_ACLS: (b"\0\0\0\x02" + bytes(40), bytes(4) + b"\0\0\0\x02%s%s"),
    ApiKey.DELETE_ACLS: (
        b"\0\0\0\x02" + bytes(40),
        bytes(4) + b"\0\0\0\x02%s" + bytes(4) + b"%s" + bytes(4),
    ),
}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acl_request_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    """Describe fails at the top, create per item, delete per filter. Nothing is changed."""
    described = await unloaded.describe(version=version, principal=ALICE)
    assert described == REFUSED
    assert (
        await unloaded.create([acl(), acl("")], version=version, principal=ALICE) == [REFUSED] * 2
    )
    deleted = await unloaded.delete([ANYTHING] * 2, version=version, principal=ALICE)
    assert deleted == [FilterResult(matches=[], error=REFUSED)] * 2
    await unloaded.load()
    assert unloaded.acls == set()
    assert unloaded.running.log.appends == []


async def test_clients_are_told_why_decisions_have_stopped(service: KafkaService) -> None:
    await service.running.feed.send(Suspend("the ACLs are stale"))
    await trio.testing.wait_all_tasks_blocked()
    refused = ApiError(801, "The ACLs are stale.")
    assert await service.describe(principal=ALICE) == refused
    assert await service.create([acl()], principal=ALICE) == [refused]
    answer = await describe_cluster(service, 2)
    assert (answer.error_code, answer.error_message) == (801, "The ACLs are stale.")


@pytest.mark.parametrize("code", [NOT_READY, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
@pytest.mark.parametrize("api_key", ACL_ANSWERS_V0)
async def test_acl_requests_of_version_0_are_refused_before_loading(
    unloaded: KafkaService, api_key: ApiKey, code: ErrorCode
) -> None:
    if code != NOT_READY:
        await unloaded.load()
    body, shape = ACL_ANSWERS_V0[api_key]
    error = code.to_bytes(2, "big") + len(code.text).to_bytes(2, "big") + code.text.encode()
    expected = shape.replace(b"%s", error)
    assert await unloaded.raw(api_key, 0, body, principal=ALICE) == expected


@pytest.mark.parametrize("version", METADATA_VERSIONS)
async def test_metadata_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    """The error is at each named topic, without brokers; from version 13 also at the top."""
    answer = await metadata(unloaded, version, topic("t"), topic("u"))
    assert [(each.error_code, each.name) for each in answer.topics] == [
        (NOT_READY, "t"),
        (NOT_READY, "u"),
    ]
    assert answer.brokers == ()
    assert getattr(answer, "error_code", NOT_READY) == NOT_READY
    everything = await metadata(unloaded, version, is_all=True)
    assert (everything.brokers, everything.topics) == ((), ())


@pytest.mark.parametrize("version", range(10, 14))
async def test_unnamed_topics_are_refused_unloaded(unloaded: KafkaService, version: int) -> None:
    """The error has their id. A null name stays null if the version's answers allow it."""
    answer = await metadata(unloaded, version, topic(topic_id=UUID(int=9)))
    (refused,) = answer.topics
    assert (refused.error_code, refused.name, refused.topic_id) == (
        NOT_READY,
        None if version >= 12 else "",
        UUID(int=9),
    )


@pytest.mark.parametrize("version", range(3))
async def test_cluster_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    """The error is at the top, without nodes."""
    answer = await describe_cluster(unloaded, version)
    assert (answer.error_code, answer.error_message) == (NOT_READY, NOT_READY.text)
    assert (answer.brokers, answer.controller_id) == ((), -1)
    assert getattr(answer, "endpoint_type", BROKER_ENDPOINTS) == BROKER_ENDPOINTS


@pytest.mark.parametrize("version", COORDINATOR_VERSIONS)
async def test_coordinator_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    """Each key gets the error, or before version 4 the only key. So do keys of an unknown type."""
    keys = ["g", "h"] if version >= 4 else ["g"]
    for key_type in (0, 99):
        found = await find_coordinators(unloaded, version, *keys, key_type=key_type)
        assert [(each.error_code, each.node_id) for each in found] == [(NOT_READY, -1)] * len(keys)
        assert [each.key for each in found if version >= 4] == (keys if version >= 4 else [])


async def test_super_users_are_served_before_loading(unloaded: KafkaService) -> None:
    """Only updates wait: they cannot be planned before."""
    assert await unloaded.describe(principal=ROOT) == set()
    answer = await metadata(unloaded, 13, topic("t"), principal=ROOT)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await describe_cluster(unloaded, 2, principal=ROOT)).error_code == 0
    (found,) = await find_coordinators(unloaded, 6, "g", principal=ROOT)
    assert found.error_code == 0
    results: list[ApiError | None] = []
    async with trio.open_nursery() as asking:

        async def create() -> None:
            results.extend(await unloaded.create([acl()], principal=ROOT))

        asking.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        assert results == []
        await unloaded.load()
    assert results == [None]
    assert unloaded.acls == {acl()}


async def test_callers_are_served_once_the_acls_are_loaded(unloaded: KafkaService) -> None:
    assert await unloaded.describe(principal=ALICE) == REFUSED
    rule = on_cluster(Operation.DESCRIBE)
    await unloaded.load(rule)
    assert await unloaded.describe(principal=ALICE) == {rule}


async def test_requests_are_timed_by_api_name(unloaded: KafkaService) -> None:
    """Refused requests are included."""
    await unloaded.describe(principal=ALICE)
    await metadata(unloaded, 13)
    await unloaded.load()
    await unloaded.describe(principal=ALICE)
    assert {name: sum(times.counts) for name, times in unloaded.times.local.items()} == {
        "DescribeAcls": 2,
        "Metadata": 1,
    }
    assert set(unloaded.times.remote) == {"DescribeAcls", "Metadata"}


async def test_authorizer_gets_the_whole_request_context(
    service: KafkaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RequestContext] = []

    def authorize(context: RequestContext, actions: object) -> list[bool]:
        seen.append(context)
        return [True]

    monkeypatch.setattr(service.authorizer, "authorize", authorize)
    await service.describe(principal=ALICE)
    assert seen == [
        RequestContext(
            principal=ALICE,
            host="10.0.0.1",
            request_name="DescribeAcls",
            listener_name="BROKER",
            client_id="tests",
            correlation_id=1,
            security_protocol=SecurityProtocol.SSL,
            request_type=29,
            request_version=3,
            authentication=Authentication.CERTIFICATE,
        )
    ]


def context(principal: str = ALICE) -> RequestContext:
    return RequestContext(principal=principal, host="10.0.0.1", request_name="Metadata")


async def test_rights_of_a_request_stay_the_same_while_acls_change(service: KafkaService) -> None:
    rights = Rights(service.authorizer)
    before = rights.pin(context())
    assert await service.create([acl("t"), on_cluster(Operation.ALTER)]) == [None, None]
    after = rights.pin(context())
    for asked, is_allowed in (before, False), (after, True):
        assert asked.may_describe(ResourceType.TOPIC, ["t", "u"]) == [is_allowed, False]
        assert bool(asked.operations(ResourceType.TOPIC, "t")) is is_allowed
        assert bool(asked.cluster_operations()) is is_allowed
    assert rights.may(context(), Operation.ALTER)


async def test_principal_named_like_the_wildcard_has_no_rights(start: Start) -> None:
    service = await start(acl("t", principal="User:*"))
    rights = Rights(service.authorizer)
    pin = rights.pin(context("User:*"))
    assert pin.may_describe(ResourceType.TOPIC, ["t"]) == [False]
    assert pin.operations(ResourceType.TOPIC, "t") == 0
    assert not rights.may(context("User:*"), Operation.DESCRIBE)


async def test_rights_raise_not_ready_before_loading(unloaded: KafkaService) -> None:
    pin = Rights(unloaded.authorizer).pin(context())
    await unloaded.load(acl("t"))
    with pytest.raises(NotReadyError):
        pin.may_describe(ResourceType.TOPIC, ["t"])


@pytest.mark.parametrize(
    ("seconds", "bound"), [(0.0, "0.0001"), (0.001, "0.001"), (0.0011, "0.0025"), (31.0, "+Inf")]
)
def test_time_is_counted_in_each_bucket_up_to_whose_bound_it_is(seconds: float, bound: str) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    names = [*map(str, BOUNDS_S), "+Inf"]
    first = names.index(bound)
    assert histogram.buckets() == [
        (name, int(number >= first)) for number, name in enumerate(names)
    ]
    assert histogram.sum_s == seconds


def test_local_and_remote_times_are_counted_apart() -> None:
    times = RequestTimes()
    times.observe("CreateAcls", local_s=0.5, remote_s=20.0)
    times.observe("CreateAcls", local_s=0.25, remote_s=0.0)
    times.observe("Metadata", local_s=0.125, remote_s=0.0)
    assert {name: each.sum_s for name, each in times.local.items()} == {
        "CreateAcls": 0.75,
        "Metadata": 0.125,
    }
    assert times.remote["CreateAcls"].sum_s == 20.0
    assert times.remote["CreateAcls"].buckets()[-1] == ("+Inf", 2)
