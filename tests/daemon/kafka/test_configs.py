"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: from a request to its effect."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from authorizerd.acl.model import Operation, PermissionType
from authorizerd.acl.steps import finish
from authorizerd.config.alterations import AlterOperation
from authorizerd.config.configuration import Configuration, Reloadable
from authorizerd.config.dynamic import GUARDED
from authorizerd.daemon.errors import StartError
from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import APIS, ApiKey, encode_request
from authorizerd.protocol.kafka.error_codes import ErrorCode
from ops.example.quarantine import QuarantineAuthorizer
from tests.daemon.kafka_service import (
    ALICE,
    ROOT,
    KafkaService,
    on_cluster,
    read_configuration,
    start,
)

Resource = SimpleNamespace

BROKER = 4
KEY = "max.connections"
SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND
MAY_ALTER = on_cluster(Operation.ALTER_CONFIGS, PermissionType.ALLOW)
MAY_DESCRIBE = on_cluster(Operation.DESCRIBE_CONFIGS, PermissionType.ALLOW)
OK = (0, None)
NOT_AUTHORIZED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def invalid(text: str) -> tuple[int, str]:
    return ErrorCode.INVALID_REQUEST, text


def altered(*changes: tuple[str, int, str | None], name: str = "7", kind: int = BROKER) -> Resource:
    """Return a resource of IncrementalAlterConfigs."""
    configs = [
        SimpleNamespace(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return SimpleNamespace(resource_type=kind, resource_name=name, configs=configs)


async def alter(
    service: KafkaService,
    *resources: Resource,
    principal: str = ROOT,
    validate_only: bool = False,
    api_key: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS,
    version: int = 1,
) -> list[tuple[int, str | None]]:
    answer = await service.ask(
        api_key, version, principal=principal, resources=resources, validate_only=validate_only
    )
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [(int(each.error_code), each.error_message) for each in answer.responses]


async def describe(
    service: KafkaService,
    name: str = "7",
    *keys: str,
    kind: int = BROKER,
    principal: str = ROOT,
    version: int = 4,
) -> Any:  # noqa: ANN401 - an entity of any version
    resource = SimpleNamespace(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    answer = await service.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        principal=principal,
        resources=[resource],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = answer.results
    return result


def max_connections(service: KafkaService) -> int:
    seen: list[Reloadable] = []
    service.settings.follow(seen.append)
    return seen[-1].max_connections


async def test_alteration_is_applied_durable_and_described(service: KafkaService) -> None:
    """One batch per request; every follower is notified before the answer."""
    told: list[int] = []
    service.settings.follow(lambda settings: told.append(settings.max_connections))
    assert await alter(
        service, altered((KEY, SET, "500")), altered((KEY, SET, "600"), name="")
    ) == [OK, OK]
    assert told == [1024, 500]
    assert service.running.log.batches == [
        (ConfigChanged(BROKER, "7", KEY, "500"), ConfigChanged(BROKER, "", KEY, "600"))
    ]
    (entry,) = (await describe(service, "7", KEY)).configs
    assert (entry.value, entry.config_source, entry.read_only, entry.config_type) == (
        "500", 2, False, 3,
    )  # fmt: skip
    assert [(each.value, each.source) for each in entry.synonyms] == [
        ("500", 2), ("600", 3), ("1024", 5),
    ]  # fmt: skip
    assert "Maximum number of open connections" in entry.documentation
    (entry,) = (await describe(service, "")).configs
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
    service: KafkaService, bad: Resource, error: tuple[int, str]
) -> None:
    """A resource is changed completely or not at all, with Kafka's texts."""
    other = altered(("authorizerd.log.level", SET, "ERROR"), name="")
    assert await alter(service, bad, other) == [error, OK]
    assert max_connections(service) == 1024
    (entry,) = (await describe(service, "7", "authorizerd.log.level")).configs
    assert entry.value == "ERROR"


@pytest.mark.parametrize(("bad", "error"), BAD)
async def test_errors_are_reported_before_missing_rights(
    service: KafkaService, bad: Resource, error: tuple[int, str]
) -> None:
    """Kafka's order: a caller without rights sees the error too, and nothing is altered."""
    good = altered((KEY, SET, "500"), name="")
    assert await alter(service, bad, good, principal=ALICE) == [error, NOT_AUTHORIZED]
    assert service.running.log.batches == []


async def test_repeated_resource_is_refused_each_time(service: KafkaService) -> None:
    error = invalid("Each resource must appear at most once.")
    assert await alter(service, altered((KEY, SET, "500")), altered()) == [error, error]
    assert max_connections(service) == 1024


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
    refused = await describe(service, principal=ALICE)
    assert (refused.error_code, refused.error_message) == NOT_AUTHORIZED
    assert await service.create([MAY_ALTER]) == [None]
    assert await alter(service, altered((KEY, SET, "500")), principal=ALICE) == [OK]
    assert (await describe(service, "7", KEY, principal=ALICE)).error_code == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("super.users", "User:alice;User:root"), ("allow.everyone.if.no.acl.found", "true")],
)
@pytest.mark.parametrize("operation", [SET, DELETE])
async def test_only_a_super_user_may_alter_guarded_keys(
    nursery: trio.Nursery, key: str, value: str, operation: AlterOperation
) -> None:
    """Otherwise ALTER_CONFIGS could make anyone a super user."""
    service = await start(nursery, MAY_ALTER)
    change = key, operation, value if operation is SET else None
    if operation is DELETE:
        assert await alter(service, altered((key, SET, value))) == [OK]
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {key}"
    before = service.authorizer.current_state().settings
    if not (operation is DELETE and key == "super.users"):  # alice is one by then
        assert await alter(service, altered(change), principal=ALICE) == [refused]
    assert service.authorizer.current_state().settings == before
    assert await alter(service, altered(change), principal=ROOT) == [OK]
    assert service.authorizer.current_state().settings != before


async def test_only_a_super_user_may_reset_guarded_keys_by_replacement(
    nursery: trio.Nursery,
) -> None:
    service = await start(nursery, MAY_ALTER)
    key = "allow.everyone.if.no.acl.found"
    assert await alter(service, altered((key, SET, "true"))) == [OK]
    (result,) = await alter(
        service,
        altered((KEY, SET, "500")),
        principal=ALICE,
        api_key=ApiKey.ALTER_CONFIGS,
        version=2,
    )
    assert result == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {key}")
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
    (entry,) = (await describe(service, "7", "authorizerd.log.level")).configs
    assert (entry.value, entry.config_source) == ("ERROR", 4)


async def test_hanging_reload_does_not_block_the_next(nursery: trio.Nursery) -> None:
    service = await start(nursery)
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


async def test_guarded_and_invalid_configs_in_the_log_are_ignored(nursery: trio.Nursery) -> None:
    service = await start(nursery, is_loaded=False)
    await service.load(
        cluster_changes=[
            ConfigChanged(BROKER, "7", "super.users", ALICE),
            ConfigChanged(BROKER, "7", "max.connections", "many"),
            ConfigChanged(BROKER, "7", "connections.max.idle.ms", "77777"),
            ConfigChanged(BROKER, "8", "authorizerd.update.timeout.ms", "1"),
        ]
    )
    service.settings.refresh()
    seen: list[Reloadable] = []
    service.settings.follow(seen.append)
    assert (seen[0].max_connections, seen[0].connections_max_idle_ms) == (1024, 77777)
    assert seen[0].update_timeout_ms == 30_000
    assert service.settings.super_users == {ROOT}


@pytest.mark.parametrize("version", APIS[ApiKey.DESCRIBE_CONFIGS].versions)
async def test_every_key_is_described(service: KafkaService, version: int) -> None:
    """Fixed keys are read-only, and no password is shown."""
    result = await describe(service, version=version)
    entries = {entry.name: entry for entry in result.configs}
    assert list(entries) == sorted(entries)
    assert (entries["node.id"].value, entries["node.id"].read_only) == ("7", True)
    assert (entries["super.users"].value, entries["super.users"].read_only) == (ROOT, False)
    assert not any(entry.is_sensitive for entry in result.configs)


UNDESCRIBED = [
    ("2", BROKER, "Unexpected broker id, expected 7 or empty string, but received 2"),
    ("x", BROKER, "Broker id must be an integer, but it is: x"),
    ("t", 7, ErrorCode.INVALID_REQUEST.text),
]


@pytest.mark.parametrize(("name", "kind", "text"), UNDESCRIBED)
async def test_other_nodes_and_types_are_not_described(
    service: KafkaService, name: str, kind: int, text: str
) -> None:
    result = await describe(service, name, kind=kind)
    assert (result.error_code, result.error_message) == invalid(text)
    assert list(result.configs) == []


@pytest.mark.parametrize("principal", [ROOT, ALICE])
async def test_unknown_resource_type_fails_the_whole_description(
    service: KafkaService, principal: str
) -> None:
    """For any caller. A type that Kafka knows but the daemon lacks fails only its own resource."""
    for kind, is_known in ((9, False), (2, True)):
        resources = [
            SimpleNamespace(resource_type=each, resource_name="7", configuration_keys=[KEY])
            for each in (BROKER, kind)
        ]
        answer = await service.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            principal=principal,
            resources=resources,
            include_synonyms=False,
            include_documentation=False,
        )
        codes = [result.error_code for result in answer.results]
        if not is_known:
            assert codes == [ErrorCode.INVALID_REQUEST] * 2
        else:
            assert (codes[0] == 0) == (principal == ROOT)


async def test_unknown_key_is_described_as_a_secret(service: KafkaService) -> None:
    """It may be a plug-in's password, and only the file changes it."""
    service.read = lambda: read_configuration("no.such.key=x")
    await service.settings.reload()
    (entry,) = (await describe(service, "07", "no.such.key")).configs
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
    assert [each.value for each in entry.synonyms] == [None]


PLUGGED = "quarantine.principals"


async def test_plugged_in_key_is_guarded_and_ends_with_a_reload(nursery: trio.Nursery) -> None:
    """Neither ALTER_CONFIGS nor the log gives control over decisions."""
    service = await start(nursery, MAY_ALTER, plug_in=QuarantineAuthorizer)
    change = altered((PLUGGED, SET, "User:mallory"))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {PLUGGED}"
    assert await alter(service, change, principal=ALICE) == [refused]
    assert PLUGGED not in service.settings.layers.merge()
    assert await alter(service, change) == [OK]
    assert service.settings.layers.merge()[PLUGGED] == "User:mallory"
    (entry,) = (await describe(service, "7", PLUGGED)).configs
    assert (entry.config_source, entry.read_only, entry.is_sensitive) == (2, False, True)
    assert await alter(service, altered((KEY, SET, "500"))) == [OK]
    assert service.settings.layers.merge()[PLUGGED] == "User:mallory"
    service.read = lambda: read_configuration(f"{PLUGGED}=User:trudy")
    await service.settings.reload()
    assert service.settings.layers.merge()[PLUGGED] == "User:trudy"
    assert await alter(service, altered(("audit.of.mine", SET, "x"))) == [
        (ErrorCode.INVALID_CONFIG, UNKNOWN.format("audit.of.mine"))
    ]


UNKNOWN = (
    "Unknown config name: {}. It is not a key of the daemon, and the authorizer does not list"
    " it in reconfigurable_configs: set it in the file"
)


class Unlisted(QuarantineAuthorizer):
    """Fails when it is asked which keys it reconfigures."""

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        raise RuntimeError


async def test_keys_that_a_plug_in_does_not_list_cannot_be_altered(nursery: trio.Nursery) -> None:
    """Its keys cannot be changed and the fault is reported; the daemon's keys can be changed."""
    service = await start(nursery, plug_in=Unlisted)
    changes = altered((PLUGGED, SET, "User:mallory")), altered((KEY, SET, "500"), name="")
    unknown = ErrorCode.INVALID_CONFIG, UNKNOWN.format(PLUGGED)
    assert await alter(service, *changes) == [unknown, OK]
    assert any(isinstance(fault, RuntimeError) for fault in service.faults)


async def test_only_a_super_user_may_alter_audit_filters(nursery: trio.Nursery) -> None:
    service = await start(nursery, MAY_ALTER)
    for key, value in (("level", "TRACE"), ("sample.allowed", "0.01")):
        name = f"authorizerd.audit.{key}"
        assert await alter(service, altered((name, SET, value)), principal=ALICE) == [
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {name}")
        ]
        assert await alter(service, altered((name, SET, value))) == [OK]


async def test_guarded_values_are_parsed_for_super_users_only(nursery: trio.Nursery) -> None:
    """Long lists take many milliseconds to parse, so nobody else may cause that."""
    service = await start(nursery, MAY_ALTER, plug_in=QuarantineAuthorizer)
    keys = *sorted(GUARDED), PLUGGED
    for key in keys:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {key}"
        unfit = altered((key, SET, "\0:;,:"))
        assert await alter(service, unfit, principal=ALICE) == [refused]
        assert await alter(service, unfit, principal="User:stranger") == [NOT_AUTHORIZED]
        ((code, _),) = await alter(service, unfit, validate_only=True)
        assert code == (0 if key == PLUGGED else ErrorCode.INVALID_REQUEST)


async def test_limit_in_the_log_that_locks_everyone_out_is_ignored(nursery: trio.Nursery) -> None:
    service = await start(nursery, is_loaded=False)
    await service.load(cluster_changes=[ConfigChanged(BROKER, "", KEY, "1")])
    service.settings.refresh()
    assert max_connections(service) == 1024


async def describe_all(service: KafkaService, resources: list[Resource], principal: str) -> Any:  # noqa: ANN401
    return await service.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        principal=principal,
        resources=resources,
        include_synonyms=True,
        include_documentation=True,
    )


@pytest.mark.parametrize("principal", [ROOT, ALICE])
async def test_repeated_resource_is_described_once(service: KafkaService, principal: str) -> None:
    """Its number may be spelled differently. The keys of all repeats are described."""
    asked = [
        Resource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in (
            (BROKER, "7", [KEY]),
            (BROKER, "8", None),
            (BROKER, "07", ["node.id"]),
            (BROKER, "", None),
            (BROKER, "7", [KEY]),
            (2, "07", None),
            (2, "7", None),
        )
    ]
    answer = await describe_all(service, asked, principal)
    results = [(each.resource_type, each.resource_name) for each in answer.results]
    assert results == [(BROKER, "7"), (BROKER, "8"), (BROKER, ""), (2, "07"), (2, "7")]
    names = {each.name for each in answer.results[0].configs}
    assert names == ({KEY, "node.id"} if principal == ROOT else set())


async def test_repeated_resource_of_an_unknown_type_is_refused_once(service: KafkaService) -> None:
    asked = [
        Resource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((BROKER, "7"), (99, "x"), (BROKER, "7"), (99, "x"))
    ]
    results = (await describe_all(service, asked, ROOT)).results
    assert [each.resource_name for each in results] == ["7", "x"]
    assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}


async def test_repeated_resource_without_keys_is_described_with_all_keys(
    service: KafkaService,
) -> None:
    every = {each.name for each in (await describe(service)).configs}
    for keys in ([KEY], None), (None, [KEY]):
        asked = [
            Resource(resource_type=BROKER, resource_name="7", configuration_keys=each)
            for each in keys
        ]
        (result,) = (await describe_all(service, asked, ROOT)).results
        assert {each.name for each in result.configs} == every


async def test_repeats_do_not_enlarge_the_answer(service: KafkaService) -> None:
    """Otherwise a few repeated bytes would get megabytes in return."""
    one = Resource(resource_type=BROKER, resource_name="7", configuration_keys=None)
    request = {"include_synonyms": True, "include_documentation": True}
    sizes = []
    for resources in ([one], [one] * 2000):
        fields = SimpleNamespace(resources=resources, **request)
        body = finish(encode_request(ApiKey.DESCRIBE_CONFIGS, 4, fields))
        sizes.append(len(await service.raw(ApiKey.DESCRIBE_CONFIGS, 4, body)))
    assert sizes[0] == sizes[1]


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


async def test_resources_are_refused_before_loading(nursery: trio.Nursery) -> None:
    service = await start(nursery, is_loaded=False)
    (result,) = await alter(service, altered((KEY, SET, "500")), principal=ALICE)
    assert result[0] == 801
    assert (await describe(service, principal=ALICE)).error_code == 801


async def test_closed_queue_fails_each_resource(service: KafkaService) -> None:
    service.running.queue.close()
    (result,) = await alter(service, altered((KEY, SET, "500")))
    assert result == (ErrorCode.BROKER_NOT_AVAILABLE, "the daemon is shutting down")
    assert max_connections(service) == 1024
