"""AlterConfigs and IncrementalAlterConfigs: from a request to its effect."""

from __future__ import annotations

import pytest

from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    KEY,
    MAY_ALTER,
    NOT_AUTHORIZED,
    OK,
    SET,
    Resource,
    Result,
    alter,
    altered,
    describe,
    describe_key,
    described,
    invalid,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, KafkaService


async def test_alteration_is_applied_durable_and_described(service: KafkaService) -> None:
    """Each request is one batch. Every follower is notified before the answer."""
    told: list[int] = []
    service.settings.subscribe(lambda settings: told.append(settings.max_connections))
    assert await alter(
        service, altered((KEY, SET, "500")), altered((KEY, SET, "600"), name="")
    ) == [OK, OK]
    assert told == [1024, 500]
    assert service.running.log.batches == [
        (ConfigChanged(BROKER, "7", KEY, "500"), ConfigChanged(BROKER, "", KEY, "600"))
    ]
    entry = await describe_key(service, KEY)
    assert (entry.value, entry.config_source, entry.read_only, entry.config_type) == (
        "500", 2, False, 3,
    )  # fmt: skip
    assert [(each.value, each.source) for each in entry.synonyms] == [
        ("500", 2), ("600", 3), ("1024", 5),
    ]  # fmt: skip
    assert "Maximum number of open connections" in entry.documentation
    ((entry,),) = [each.configs for each in await describe(service, described(""))]
    assert (entry.name, entry.value, entry.config_source) == (KEY, "600", 3)
    assert await alter(service, altered((KEY, DELETE, None))) == [OK]
    assert told == [1024, 500, 600]


async def test_replacement_resets_configs_that_it_does_not_name(service: KafkaService) -> None:
    idle = "connections.max.idle.ms"
    assert await alter(service, altered((KEY, SET, "500"), (idle, SET, "99999"))) == [OK]
    for version in APIS[ApiKey.ALTER_CONFIGS].versions:
        resource = altered((KEY, SET, str(100 + version)))
        assert await alter(service, resource, api_key=ApiKey.ALTER_CONFIGS, version=version) == [OK]
        assert max_connections(service) == 100 + version
    assert dict(service.running.applier.cluster.newest.configs[(BROKER, "7")]) == {KEY: "102"}


BAD = [
    (altered((KEY, SET, "x")), invalid(
        "Invalid value x for configuration max.connections: "
        "expected an integer from 1 to 2147483647, found 'x'"
    )),
    (altered(("node.id", SET, "3")), invalid("Cannot update these configs dynamically: [node.id]")),
    (altered((KEY, SET, "500"), ("log.dirs", SET, "3")), invalid(
        "Cannot update these configs dynamically: [log.dirs]"
    )),
    (altered((KEY, SET, "63")), invalid(
        "Invalid value 63 for configuration max.connections: 63 is below 64, the minimum that a "
        "client may set, since a smaller limit can lock everyone out; set it in the file"
    )),
    (altered(("no.such.key", SET, "x")), (
        ErrorCode.INVALID_CONFIG,
        "Unknown config name: no.such.key. It is not a key of the daemon, and the authorizer "
        "does not list it in reconfigurable_configs: set it in the file",
    )),
    (altered((KEY, SET, None)), invalid("Null value not supported for : max.connections")),
    (altered((KEY, 9, "1")), invalid("Unknown operations type 9")),
    (altered((KEY, SET, "99"), (KEY, DELETE, None)), invalid("Error due to duplicate config keys")),
    (altered((KEY, APPEND, "1")), (
        ErrorCode.INVALID_CONFIG,
        "Config value append is not allowed for config key: max.connections",
    )),
    (altered(("no.such.key", APPEND, "1")), (
        ErrorCode.INVALID_CONFIG, "Unknown config name: no.such.key",
    )),
    (altered((KEY, SET, "500"), name="2"), invalid(
        "Unexpected broker id, expected 7, but received 2"
    )),
    (altered((KEY, SET, "500"), name="x"), invalid("Node id must be an integer, but it is: x")),
    (altered((KEY, SET, "500"), kind=9), invalid("Unknown resource type 9")),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "error"), BAD)
async def test_bad_resource_changes_nothing_and_others_succeed(
    service: KafkaService, bad: Resource, error: Result
) -> None:
    """A resource is changed completely or not at all, with Kafka's texts."""
    other = altered(("authorizerd.log.level", SET, "ERROR"), name="")
    assert await alter(service, bad, other) == [error, OK]
    assert max_connections(service) == 1024
    assert (await describe_key(service, "authorizerd.log.level")).value == "ERROR"


@pytest.mark.parametrize(("bad", "error"), BAD)
async def test_errors_are_reported_before_missing_rights(
    service: KafkaService, bad: Resource, error: Result
) -> None:
    """As in Kafka, a caller without rights sees the error too, and nothing is altered."""
    good = altered((KEY, SET, "500"), name="")
    assert await alter(service, bad, good, principal=ALICE) == [error, NOT_AUTHORIZED]
    assert service.running.log.batches == []


async def test_repeated_resource_is_refused_each_time(service: KafkaService) -> None:
    error = invalid("Each resource must appear at most once.")
    assert await alter(service, altered((KEY, SET, "500")), altered()) == [error, error]
    assert max_connections(service) == 1024


async def test_update_timeout_that_no_change_could_meet_is_refused(service: KafkaService) -> None:
    """The client could not even raise it again."""
    key = "authorizerd.update.timeout.ms"
    ((code, text),) = await alter(service, altered((key, SET, "1")))
    assert code == ErrorCode.INVALID_REQUEST
    assert text is not None
    assert "expected an integer from 100 to 3600000, found '1'" in text
    assert await alter(service, altered((key, SET, "100"))) == [(0, None)]


async def test_validation_changes_nothing(service: KafkaService) -> None:
    """The answer is the same as for a change."""
    resources = altered((KEY, SET, "500")), altered((KEY, SET, "x"), name="")
    (good, (code, _)) = await alter(service, *resources, validate_only=True)
    assert (good, code) == (OK, ErrorCode.INVALID_REQUEST)
    assert service.running.log.batches == []
    assert max_connections(service) == 1024


async def test_caller_without_the_right_is_denied_for_each_resource(service: KafkaService) -> None:
    """ALTER_CONFIGS implies DESCRIBE_CONFIGS."""
    resources = altered((KEY, SET, "500")), altered(("super.users", SET, ALICE), name="")
    assert await alter(service, *resources, principal=ALICE) == [NOT_AUTHORIZED] * 2
    assert max_connections(service) == 1024
    (refused,) = await describe(service, principal=ALICE)
    assert (refused.error_code, refused.error_message) == NOT_AUTHORIZED
    assert await service.create([MAY_ALTER]) == [None]
    assert await alter(service, altered((KEY, SET, "500")), principal=ALICE) == [OK]
    assert (await describe(service, principal=ALICE))[0].error_code == 0


LONG = "x" * 30_000


@pytest.mark.parametrize(
    "changes",
    [
        [(f"{LONG}-{number}", SET, None) for number in range(3)],
        [(f"{LONG}-{number}", SET, "x") for number in range(3)],
        [(KEY, SET, LONG)],
    ],
)
async def test_long_error_text_is_shortened(
    service: KafkaService, changes: list[tuple[str, int, str | None]]
) -> None:
    """Kafka's strings have a maximum length, and even an invalid request gets an answer."""
    ((code, text),) = await alter(service, altered(*changes))
    assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
    assert text is not None
    assert len(text) == 4096


async def test_resources_are_refused_before_loading(unloaded: KafkaService) -> None:
    (result,) = await alter(unloaded, altered((KEY, SET, "500")), principal=ALICE)
    assert result[0] == 801
    assert (await describe(unloaded, principal=ALICE))[0].error_code == 801


async def test_closed_queue_fails_each_resource(service: KafkaService) -> None:
    service.running.queue.close()
    (result,) = await alter(service, altered((KEY, SET, "500")))
    assert result == (ErrorCode.BROKER_NOT_AVAILABLE, "the daemon is shutting down")
    assert max_connections(service) == 1024
