"""AlterConfigs and IncrementalAlterConfigs, keys that only super users may change, and reloads."""

import threading

import pytest
import trio
import trio.testing

from authorizerd.config.alterations import AlterOperation
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import SUPER_USER_ONLY_KEYS
from authorizerd.daemon.errors import StartError
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
    guarded,
    invalid,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, read_configuration
from tools.example.quarantine import QuarantineAuthorizer


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
    (altered((KEY, SET, "500"), ("log.dirs", SET, "3")), invalid(
        "Cannot update these configs dynamically: [log.dirs]"
    )),
    (altered(("no.such.key", SET, "x")), (
        ErrorCode.INVALID_CONFIG,
        "Unknown config name: no.such.key. It is not a key of the daemon, and the authorizer "
        "does not list it in reconfigurable_configs: set it in the file",
    )),
    (altered((KEY, SET, "99"), (KEY, DELETE, None)), invalid("Error due to duplicate config keys")),
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
async def test_long_error_is_shortened(
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


@pytest.mark.parametrize(
    ("key", "value"),
    [("super.users", "User:alice;User:root"), ("allow.everyone.if.no.acl.found", "true")],
)
@pytest.mark.parametrize("operation", [SET, DELETE])
async def test_only_a_super_user_may_alter_guarded_keys(
    start: Start, key: str, value: str, operation: AlterOperation
) -> None:
    """Otherwise ALTER_CONFIGS could make anyone a super user."""
    service = await start(MAY_ALTER)
    change = key, operation, value if operation is SET else None
    if operation is DELETE:
        assert await alter(service, altered((key, SET, value))) == [OK]
    refused = guarded(key)
    before = service.authorizer.current_state().settings
    if not (operation is DELETE and key == "super.users"):  # by then alice is a super user
        assert await alter(service, altered(change), principal=ALICE) == [refused]
    assert service.authorizer.current_state().settings == before
    assert await alter(service, altered(change), principal=ROOT) == [OK]
    assert service.authorizer.current_state().settings != before


async def test_only_a_super_user_may_reset_guarded_keys_by_replacement(start: Start) -> None:
    service = await start(MAY_ALTER)
    key = "allow.everyone.if.no.acl.found"
    assert await alter(service, altered((key, SET, "true"))) == [OK]
    (result,) = await alter(
        service,
        altered((KEY, SET, "500")),
        principal=ALICE,
        api_key=ApiKey.ALTER_CONFIGS,
        version=2,
    )
    assert result == guarded(key)
    assert service.authorizer.current_state().settings.allow_everyone_if_no_acl_found


async def test_reload_restores_guarded_keys_from_the_file(service: KafkaService) -> None:
    """All other keys set over the wire override the file, and stay."""
    changes = (KEY, SET, "500"), ("super.users", SET, f"{ROOT};{ALICE}")
    assert await alter(service, altered(*changes)) == [OK]
    assert ALICE in service.settings.super_users
    service.read = lambda: read_configuration("max.connections=9", "authorizerd.log.level=ERROR")
    await service.settings.reload()
    assert service.settings.super_users == {ROOT}
    assert service.authorizer.current_state().settings.super_users == {ROOT}
    assert max_connections(service) == 500
    entry = await describe_key(service, "authorizerd.log.level")
    assert (entry.value, entry.config_source) == ("ERROR", 4)


async def test_removed_super_user_cannot_return_by_a_pending_change(service: KafkaService) -> None:
    """A reload removes ROOT while its change is being written."""
    results: list[Result] = []

    async def make_both_super_users() -> None:
        results.extend(await alter(service, altered(("super.users", SET, f"{ROOT};{ALICE}"))))

    async with trio.open_nursery() as nursery:
        with service.log_held():
            nursery.start_soon(make_both_super_users)
            await trio.testing.wait_all_tasks_blocked()
            service.read = lambda: read_configuration("super.users=User:other")
            await service.settings.reload()
    assert results == [OK]
    assert service.settings.super_users == {"User:other"}
    assert service.authorizer.current_state().settings.super_users == {"User:other"}


async def test_reloads_are_counted(service: KafkaService) -> None:
    def fail() -> Configuration:
        raise StartError("unreadable")

    good, reloads = service.read, service.settings.reloads
    service.read = fail
    await service.settings.reload()
    assert (reloads.succeeded, reloads.failed, reloads.failing) == (0, 1, 1)
    service.read = good
    await service.settings.reload()
    assert (reloads.succeeded, reloads.failed, reloads.failing) == (1, 1, 0)


async def test_hanging_reload_does_not_block_the_next(start: Start) -> None:
    service = await start()
    released, reading = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def hang() -> Configuration:
        token.run_sync_soon(reading.set)
        released.wait()
        raise StartError("too late")

    service.read = hang
    async with trio.open_nursery() as hanging:
        hanging.start_soon(service.settings.reload)
        await reading.wait()
        hanging.cancel_scope.cancel()
    service.read = lambda: read_configuration("max.connections=9")
    with trio.fail_after(10):
        await service.settings.reload()
    assert max_connections(service) == 9
    released.set()


async def test_guarded_and_invalid_configs_in_the_log_are_ignored(unloaded: KafkaService) -> None:
    await unloaded.load(
        cluster_changes=[
            ConfigChanged(BROKER, "7", "super.users", ALICE),
            ConfigChanged(BROKER, "7", "max.connections", "many"),
            ConfigChanged(BROKER, "7", "connections.max.idle.ms", "77777"),
            ConfigChanged(BROKER, "8", "authorizerd.update.timeout.ms", "1"),
        ]
    )
    unloaded.settings.refresh()
    seen: list[Configuration] = []
    unloaded.settings.subscribe(seen.append)
    assert (seen[0].max_connections, seen[0].connections_max_idle_ms) == (1024, 77777)
    assert seen[0].update_timeout_ms == 30_000
    assert unloaded.settings.super_users == {ROOT}


PLUGGED = "quarantine.principals"


UNKNOWN = (
    "Unknown config name: {}. It is not a key of the daemon, and the authorizer does not list"
    " it in reconfigurable_configs: set it in the file"
)


class Unlisted(QuarantineAuthorizer):
    """Raise an error instead of listing the reconfigurable keys."""

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        raise RuntimeError


async def test_plugged_in_key_is_guarded_and_ends_with_a_reload(start: Start) -> None:
    """Neither ALTER_CONFIGS nor the log gives control over decisions."""
    service = await start(MAY_ALTER, plug_in=QuarantineAuthorizer)
    change = altered((PLUGGED, SET, "User:mallory"))
    assert await alter(service, change, principal=ALICE) == [guarded(PLUGGED)]
    assert PLUGGED not in service.settings.layers.merge()
    assert await alter(service, change) == [OK]
    assert service.settings.layers.merge()[PLUGGED] == "User:mallory"
    entry = await describe_key(service, PLUGGED)
    assert (entry.config_source, entry.read_only, entry.is_sensitive) == (2, False, True)
    assert await alter(service, altered((KEY, SET, "500"))) == [OK]
    assert service.settings.layers.merge()[PLUGGED] == "User:mallory"
    service.read = lambda: read_configuration(f"{PLUGGED}=User:trudy")
    await service.settings.reload()
    assert service.settings.layers.merge()[PLUGGED] == "User:trudy"
    assert await alter(service, altered(("audit.of.mine", SET, "x"))) == [
        (ErrorCode.INVALID_CONFIG, UNKNOWN.format("audit.of.mine"))
    ]


async def test_keys_that_a_plug_in_does_not_list_cannot_be_altered(start: Start) -> None:
    """Its keys cannot be changed and the fault is reported; the daemon's keys can be changed."""
    service = await start(plug_in=Unlisted)
    changes = altered((PLUGGED, SET, "User:mallory")), altered((KEY, SET, "500"), name="")
    unknown = ErrorCode.INVALID_CONFIG, UNKNOWN.format(PLUGGED)
    assert await alter(service, *changes) == [unknown, OK]
    assert any(isinstance(fault, RuntimeError) for fault in service.faults)


async def test_only_a_super_user_may_alter_audit_filters(start: Start) -> None:
    service = await start(MAY_ALTER)
    for key, value in (("level", "TRACE"), ("sample.allowed", "0.01")):
        name = f"authorizerd.audit.{key}"
        assert await alter(service, altered((name, SET, value)), principal=ALICE) == [guarded(name)]
        assert await alter(service, altered((name, SET, value))) == [OK]


async def test_guarded_values_are_parsed_for_super_users_only(start: Start) -> None:
    """Long lists take many milliseconds to parse, so nobody else may cause that."""
    service = await start(MAY_ALTER, plug_in=QuarantineAuthorizer)
    keys = *sorted(SUPER_USER_ONLY_KEYS), PLUGGED
    for key in keys:
        refused = guarded(key)
        unfit = altered((key, SET, "\0:;,:"))
        assert await alter(service, unfit, principal=ALICE) == [refused]
        assert await alter(service, unfit, principal="User:stranger") == [NOT_AUTHORIZED]
        ((code, _),) = await alter(service, unfit, validate_only=True)
        assert code == (0 if key == PLUGGED else ErrorCode.INVALID_REQUEST)


async def test_limit_in_the_log_that_locks_everyone_out_is_ignored(unloaded: KafkaService) -> None:
    await unloaded.load(cluster_changes=[ConfigChanged(BROKER, "", KEY, "1")])
    unloaded.settings.refresh()
    assert max_connections(unloaded) == 1024
