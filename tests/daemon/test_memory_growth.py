"""How much memory one byte of a request costs, for the costliest known request of each surface.

The sum of bounds (config.bounds) relies on these factors. Python counts the allocated bytes, so the
figures are the same on any machine.
"""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import msgspec
import pytest
import trio

from authorizerd.acl.steps import finish
from authorizerd.config.bounds import (
    EVALUATIONS_BYTES_MAX,
    HTTP_GROWTH,
    KAFKA_GROWTH,
    LIST_BYTES_MAX,
    STREAM_GROWTH,
)
from authorizerd.daemon.kafka.listener import _LISTING_APIS
from authorizerd.protocol.decisions.authzen import decode_evaluation
from authorizerd.protocol.decisions.authzen_batches import EVALUATIONS_MAX, decode_evaluations
from authorizerd.protocol.decisions.stream import StreamQuestion, StreamServerConnection
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX
from authorizerd.protocol.primitives import unsigned_varint
from tests.daemon.kafka_service import ALICE, ROOT, start
from tests.support.kio_codec import encode_request

Fields = SimpleNamespace

BESIDE_BYTES = 128 * 1024
"""Memory that a request takes whatever its size: a chunk of its answer, and function frames."""
SHARE = 4
"""These requests have the maximum number of items divided by this, so that measuring is fast."""
ITEMS = REQUEST_ITEMS_MAX // SHARE
BROKER = 4


def creation(number: int) -> bytes:
    """Return an ACL as short as possible, in CreateAcls of version 3."""
    name = f"{number:x}".encode()
    return b"\x02" + unsigned_varint(len(name) + 1) + name + b"\x03\x04U:a\x02*\x03\x03\0"


class Peak:
    """The largest number of bytes allocated at once, and the number left at the end."""

    size = 0
    left = 0


@contextmanager
def measured() -> Iterator[Peak]:
    """Measure the allocations of the block, without collections, as in the daemon."""
    peak = Peak()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield peak
        peak.left, peak.size = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()


def names(count: int = ITEMS) -> list[str]:
    return [f"{number:x}" for number in range(count)]


def configs_of(operation: int, value: str | None) -> list[Fields]:
    return [Fields(name=name, config_operation=operation, value=value) for name in names()]


def resources(kind: int, **fields: object) -> list[Fields]:
    return [Fields(resource_type=kind, resource_name=name, **fields) for name in names()]


def whole(**fields: object) -> list[Fields]:
    return [Fields(resource_type=BROKER, resource_name="", **fields)]


NO_TOPICS = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
DESCRIBED = {"include_synonyms": True, "include_documentation": True}
WORST: dict[str, tuple[ApiKey, int, str, dict[str, object]]] = {
    "alterations that are denied": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, ALICE,
        {"resources": whole(configs=configs_of(0, "")), "validate_only": False},
    ),
    "alterations that take nothing away": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, ROOT,
        {"resources": whole(configs=configs_of(1, None)), "validate_only": True},
    ),
    "alterations of nodes that are not there": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, ALICE,
        {"resources": resources(BROKER, configs=[]), "validate_only": False},
    ),
    "replacements": (
        ApiKey.ALTER_CONFIGS, 2, ALICE,
        {"resources": whole(configs=configs_of(0, "")), "validate_only": False},
    ),
    "replacements of nodes that are not there": (
        ApiKey.ALTER_CONFIGS, 2, ALICE,
        {"resources": resources(BROKER, configs=[]), "validate_only": False},
    ),
    "partitions of a quorum": (
        ApiKey.DESCRIBE_QUORUM, 2, ROOT,
        {"topics": [Fields(topic_name="", partitions=[Fields(partition_index=0)] * ITEMS)]},
    ),
    "topics of a quorum": (
        ApiKey.DESCRIBE_QUORUM, 2, ROOT,
        {"topics": [Fields(topic_name="", partitions=[])] * ITEMS},
    ),
    "states of groups": (
        ApiKey.LIST_GROUPS, 5, ALICE, {"states_filter": [""] * ITEMS, "types_filter": []},
    ),
    "topics": (
        ApiKey.METADATA, 12, ROOT,
        {"topics": [Fields(topic_id=None, name=name) for name in names()], **NO_TOPICS},
    ),
    "topics that are hidden": (
        ApiKey.METADATA, 12, ALICE,
        {"topics": [Fields(topic_id=None, name=name) for name in names()], **NO_TOPICS},
    ),
    "coordinators": (
        ApiKey.FIND_COORDINATOR, 6, ROOT, {"key_type": 0, "coordinator_keys": [""] * ITEMS},
    ),
    "groups": (
        ApiKey.DESCRIBE_GROUPS, 6, ROOT,
        {"groups": [""] * ITEMS, "include_authorized_operations": True},
    ),
    "configs of many resources": (
        ApiKey.DESCRIBE_CONFIGS, 4, ROOT,
        {"resources": resources(2, configuration_keys=None), **DESCRIBED},
    ),
    "configs of one resource, repeated": (
        ApiKey.DESCRIBE_CONFIGS, 4, ROOT,
        {"resources": whole(configuration_keys=None) * ITEMS, **DESCRIBED},
    ),
}  # fmt: skip


@pytest.mark.parametrize("worst", WORST)
async def test_kafka_request_stays_in_its_growth_factor(nursery: trio.Nursery, worst: str) -> None:
    service = await start(nursery)
    api_key, version, principal, fields = WORST[worst]
    body = finish(encode_request(api_key, version, Fields(**fields)))
    with measured() as peak:
        await service.raw(api_key, version, body, principal=principal)
    lists = LIST_BYTES_MAX // SHARE if api_key in _LISTING_APIS else 0
    assert peak.size <= (KAFKA_GROWTH - 1) * len(body) + lists + BESIDE_BYTES


ACL_REQUESTS: dict[str, tuple[ApiKey, str, bytes]] = {
    "creations of new ACLs": (ApiKey.CREATE_ACLS, ROOT, b"".join(map(creation, range(ITEMS)))),
    "creations of one ACL": (ApiKey.CREATE_ACLS, ROOT, creation(1) * ITEMS),
    "creations without names": (
        ApiKey.CREATE_ACLS, ROOT, bytes.fromhex("0201030101030300") * ITEMS
    ),
    "creations that are denied": (ApiKey.CREATE_ACLS, ALICE, bytes(8) * ITEMS),
    "filters that match nothing": (
        ApiKey.DELETE_ACLS, ROOT, bytes.fromhex("020271030000010100") * ITEMS
    ),
    "filters that are invalid": (ApiKey.DELETE_ACLS, ROOT, bytes(8) * ITEMS),
    "filters that are denied": (ApiKey.DELETE_ACLS, ALICE, bytes(8) * ITEMS),
}  # fmt: skip


@pytest.mark.parametrize("worst", ACL_REQUESTS)
async def test_acl_request_stays_in_its_growth_factor(nursery: trio.Nursery, worst: str) -> None:
    """The ACLs that remain count as memory at rest."""
    service = await start(nursery)
    api_key, principal, items = ACL_REQUESTS[worst]
    body = unsigned_varint(ITEMS + 1) + items + b"\0"
    with measured() as peak:
        await service.raw(api_key, 3, body, principal=principal)
    grown = peak.size - peak.left
    assert grown <= (KAFKA_GROWTH - 1) * len(body) + BESIDE_BYTES


QUESTIONS: dict[str, StreamQuestion] = {
    "no texts": ("", None, 3, 2, ""),
    "one letter": ("a", "b", 3, 2, "c"),
    "two letters": ("aa", "bb", 3, 2, "cc"),
    "names": ("aa", None, "READ", "TOPIC", "cc"),
    "another plane": ("\U0001f600", None, 3, 2, "\U0001f600"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_stream_frame_stays_within_its_growth_factor(question: str) -> None:
    connection = StreamServerConnection(1 << 20)
    connection.receive_data(frame(msgspec.msgpack.encode(("hello", 1, None))))
    assert connection.next_frame() is not None
    data = frame(msgspec.msgpack.encode((1, [QUESTIONS[question]] * ITEMS)))
    connection.receive_data(data)
    with measured() as peak:
        assert connection.next_frame() is not None
    assert peak.size <= (STREAM_GROWTH - 2) * len(data) + BESIDE_BYTES


EVALUATION = (
    b'{"subject":{"type":"user","id":"%b"},"action":{"name":"read"},'
    b'"resource":{"type":"topic","id":"%b"}%b}'
)
LONG = b"x" * 15_000
EVALUATIONS = {
    "long names": EVALUATION % (LONG, LONG, b""),
    "escapes": EVALUATION % (b"\\u0041" * 2000, b"\\u0041" * 2000, b""),
    "fields that mean nothing": EVALUATION % (b"a", b"t", b',"x":"' + LONG + b'"'),
}


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_evaluation_stays_within_its_growth_factor(evaluation: str) -> None:
    body = EVALUATIONS[evaluation]
    with measured() as peak:
        decode_evaluation(body)
    assert peak.size <= (HTTP_GROWTH - 1) * len(body) + BESIDE_BYTES


@pytest.mark.parametrize("evaluation", ["{}", '{"subject":{"type":"user","id":"a"}}'])
def test_batch_of_evaluations_stays_within_its_growth_factor(evaluation: str) -> None:
    """It has the maximum number of evaluations, each as short as possible."""
    body = f'{{"evaluations":[{",".join([evaluation] * EVALUATIONS_MAX)}]}}'.encode()
    with measured() as peak:
        decode_evaluations(body)
    assert peak.size <= (HTTP_GROWTH - 1) * len(body) + EVALUATIONS_BYTES_MAX
