"""The rights of a request's sender, judged by one state of the ACLs."""

from __future__ import annotations

import pytest
import trio

from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.actors.authorizer import RequestContext
from authorizerd.daemon.kafka.permissions import Rights
from tests.daemon.kafka_service import ALICE, KafkaService, acl, on_cluster, start


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


async def test_principal_named_like_the_wildcard_has_no_rights(nursery: trio.Nursery) -> None:
    service = await start(nursery, acl("t", principal="User:*"))
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
