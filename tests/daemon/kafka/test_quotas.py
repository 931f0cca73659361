"""DescribeClientQuotas: no quotas, and Kafka's errors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from authorizerd.acl.model import Operation
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, on_cluster, start

Component = tuple[str, int, str | None]

EXACT, DEFAULT, SPECIFIED = range(3)
each_version = pytest.mark.parametrize("version", [0, 1])


async def describe(
    service: KafkaService, *components: Component, version: int = 1, principal: str = ROOT
) -> tuple[int, str | None, object]:
    answer = await service.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        version,
        principal=principal,
        components=[
            SimpleNamespace(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=False,
    )
    return answer.error_code, answer.error_message, answer.entries


@each_version
@pytest.mark.parametrize(
    "components",
    [
        [],
        [("user", EXACT, "alice")],
        [("user", DEFAULT, None), ("client-id", SPECIFIED, None)],
        [("ip", SPECIFIED, None)],
    ],
)
async def test_there_are_no_quotas(
    service: KafkaService, components: list[Component], version: int
) -> None:
    assert await describe(service, *components, version=version) == (0, "", ())


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "a")], "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", DEFAULT, None)],
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", EXACT, None)],
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "a")],
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("ip", SPECIFIED, "a")],
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("ip", 3, None)], "Unknown match type 3"),
        (
            [("ip", SPECIFIED, None), ("client-id", EXACT, "c")],
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        ),
    ],
)
async def test_invalid_filter_is_refused_with_kafkas_text(
    service: KafkaService, components: list[Component], error: str
) -> None:
    assert await describe(service, *components) == (ErrorCode.INVALID_REQUEST, error, None)


async def test_unknown_entity_type_is_refused(service: KafkaService) -> None:
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    text = "Unsupported entity type planet"
    assert await describe(service, ("planet", EXACT, "mars")) == (unsupported, text, None)
    code, text_of_long, _ = await describe(service, ("p" * 9000, EXACT, ""))
    assert (code, len(text_of_long or "")) == (unsupported, 4096)


@each_version
async def test_describing_requires_describe_configs(nursery: trio.Nursery, version: int) -> None:
    """Without this right, an invalid filter is not reported."""
    service = await start(nursery, on_cluster(Operation.DESCRIBE))
    for components in ([], [("", EXACT, "a")]):
        answer = await describe(service, *components, version=version, principal=ALICE)
        assert answer == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, None)
    await service.create([on_cluster(Operation.DESCRIBE_CONFIGS)])
    assert await describe(service, version=version, principal=ALICE) == (0, "", ())


@each_version
async def test_request_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    error = ErrorCode.AUTHORIZER_NOT_READY
    answer = await describe(unloaded, version=version, principal=ALICE)
    assert answer == (error, error.text, None)
