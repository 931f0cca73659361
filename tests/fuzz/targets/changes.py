"""Kafka requests of a super user: what is acknowledged is in the state and in the log, alone."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio

from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved
from authorizerd.acl.steps import finish
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_delete_acls_request,
)
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.messages import decode_request, decode_response
from authorizerd.protocol.kafka.server_connection import KafkaRequest, read_request
from authorizerd.protocol.records.metadata import decode_value, encode_value
from tests.daemon.kafka_service import KafkaService, start
from tests.fuzz.target import reader
from tests.loop.kafka_requests import Request, is_forwardable, requests_of
from tests.support.acls import acl

_PRESENT: Final = (
    acl("User:alice", "READ", topic="t0"),
    acl("User:*", "ALL", topic="*", deny=True),
    acl("User:bob", "WRITE", topic="t", pattern="PREFIXED", host="10.0.0.1"),
)
_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4


async def _check(data: bytes) -> None:
    try:
        request = read_request(bytearray(data))
    except DecodeError:
        return
    if request.is_served and is_forwardable(request.api_key):
        async with trio.open_nursery() as nursery:
            service = await start(nursery, *_PRESENT)
            with suppress(DecodeError):  # the listener closes the connection
                await _change(service, request)
            assert service.running.applier.snapshot.newest is not None
            nursery.cancel_scope.cancel()


async def _change(service: KafkaService, request: KafkaRequest) -> None:
    key, version, body = request.api_key, request.api_version, bytes(request.body)
    before = service.acls
    answered = await service.raw(key, version, body)
    answer: Any = finish(decode_response(key, version, answered))
    asked: Any = finish(decode_request(key, version, body))
    _check_log(service, before)
    if key is ApiKey.CREATE_ACLS:
        pairs = zip(asked.creations, answer.results, strict=True)
        created = {each for each, result in pairs if result is None}
        assert service.acls == before | created
    elif key is ApiKey.DELETE_ACLS:
        pairs = zip(asked.filters, answer.results, strict=True)
        wanted = [each for each, result in pairs if result.error is None]
        deleted = {one for one in before if any(_meets(one, each) for each in wanted)}
        assert service.acls == before - deleted
    else:
        assert service.acls == before


def _check_log(service: KafkaService, before: set[Acl]) -> None:
    """Check that the log's records lead to the state, and are read as they were written."""
    assert before == set(_PRESENT)
    applier = service.running.applier
    snapshot = applier.snapshot.newest
    assert snapshot is not None
    state = {b"loaded" + number.to_bytes(10, "big"): each for number, each in enumerate(_PRESENT)}
    image = EMPTY_IMAGE
    for batch in service.running.log.batches:
        for change in batch:
            written = encode_value(change)
            assert decode_value(written, 0, len(written)) == change
            if isinstance(change, AclAdded):
                assert change.id not in state
                state[change.id] = change.acl
            elif isinstance(change, AclRemoved):
                del state[change.id]
            else:
                image = apply_cluster_changes(image, (change,))
    assert dict(snapshot.acls.items()) == state
    assert applier.cluster.newest == image


def _meets(one: Acl, wanted: AclFilter) -> bool:
    name, pattern = wanted.resource_name, wanted.pattern_type
    if name is not None and pattern == _MATCH:
        is_prefix = one.pattern_type == _PREFIXED and name.startswith(one.resource_name)
        has_name = is_prefix or (one.pattern_type == _LITERAL and one.resource_name in (name, "*"))
    else:
        has_name = name in (None, one.resource_name)
    return (
        has_name
        and pattern in (_ANY, _MATCH, one.pattern_type)
        and wanted.resource_type in (_ANY, one.resource_type)
        and wanted.principal in (None, one.principal)
        and wanted.host in (None, one.host)
        and wanted.operation in (_ANY, one.operation)
        and wanted.permission_type in (_ANY, one.permission_type)
    )


def _seeds() -> Iterator[bytes]:
    for api_key in filter(is_forwardable, APIS):
        for version in APIS[api_key].versions:
            for request in requests_of(api_key, version, items=2):
                data = request.frame()[4:]
                if len(data) < 1_000:
                    yield data
    create, delete = ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS
    filters = (
        AclFilter(),
        AclFilter(resource_name="t0", pattern_type=_MATCH),
        AclFilter(principal="User:bob", host="10.0.0.1"),
    )
    other = acl("Group:g", "ALTER", cluster=True)
    for version in (1, 2, 3):
        new = partial(encode_create_acls_request, version, [other, *_PRESENT])
        yield Request(create, version, "", new).frame()[4:]
        gone = partial(encode_delete_acls_request, version, filters)
        yield Request(delete, version, "", gone).frame()[4:]


CHANGE_TARGETS: Final = (
    reader("kafka-changes", _check, _seeds,
           words=(b"kafka-cluster", b"User:alice", b"t0", b"max.connections", b"super.users"),
           weight=4, lines_max=40 * 50_000),
)  # fmt: skip
