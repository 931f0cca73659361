"""Configs that only super users may change, reloads, and what the log may set."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from authorizerd.config.alterations import AlterOperation
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import SUPER_USER_ONLY_KEYS
from authorizerd.daemon.errors import StartError
from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.config_requests import (
    BROKER,
    DELETE,
    KEY,
    MAY_ALTER,
    NOT_AUTHORIZED,
    OK,
    SET,
    Result,
    alter,
    altered,
    describe_key,
    guarded,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, read_configuration, start
from tools.example.quarantine import QuarantineAuthorizer


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
    refused = guarded(key)
    before = service.authorizer.current_state().settings
    if not (operation is DELETE and key == "super.users"):  # by then alice is a super user
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


async def test_removed_super_user_cannot_come_back_by_a_change_under_way(
    service: KafkaService,
) -> None:
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


async def test_plugged_in_key_is_guarded_and_ends_with_a_reload(nursery: trio.Nursery) -> None:
    """Neither ALTER_CONFIGS nor the log gives control over decisions."""
    service = await start(nursery, MAY_ALTER, plug_in=QuarantineAuthorizer)
    change = altered((PLUGGED, SET, "User:mallory"))
    refused = guarded(PLUGGED)
    assert await alter(service, change, principal=ALICE) == [refused]
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
        assert await alter(service, altered((name, SET, value)), principal=ALICE) == [guarded(name)]
        assert await alter(service, altered((name, SET, value))) == [OK]


async def test_guarded_values_are_parsed_for_super_users_only(nursery: trio.Nursery) -> None:
    """Long lists take many milliseconds to parse, so nobody else may cause that."""
    service = await start(nursery, MAY_ALTER, plug_in=QuarantineAuthorizer)
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
