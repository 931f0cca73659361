"""Configs of a daemon that follows a cluster: only its file sets them."""

from __future__ import annotations

import pytest
import trio

from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.config_requests import (
    BROKER,
    DELETE,
    KEY,
    SET,
    alter,
    altered,
    describe,
    describe_key,
    described,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, KafkaService, read_configuration, start

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="daemon" password="hidden";'
)
FOLLOW = (
    "controller.quorum.bootstrap.servers=c1:9093",
    "controller.listener.names=CONTROLLER",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
    "sasl.mechanism.controller.protocol=PLAIN",
    f"listener.name.controller.plain.sasl.jaas.config={JAAS}",
    "listener.name.controller.ssl.truststore.location=/t",
    f"sasl.jaas.config={JAAS}",
)
OF_BROKERS = (
    ConfigChanged(BROKER, "7", KEY, "500"),
    ConfigChanged(BROKER, "", KEY, "600"),
    ConfigChanged(BROKER, "7", "super.users", ALICE),
    ConfigChanged(BROKER, "", "authorizerd.audit.level", "TRACE"),
)


@pytest.fixture
async def follower(nursery: trio.Nursery) -> KafkaService:
    return await start(nursery, cluster_changes=OF_BROKERS, lines=FOLLOW)


async def test_configs_of_brokers_are_not_settings_of_a_follower(follower: KafkaService) -> None:
    """Even a broker with the same id has other settings."""
    follower.settings.refresh()
    assert max_connections(follower) == 1024
    assert ALICE not in follower.settings.super_users
    entry = await describe_key(follower, KEY)
    assert (entry.value, entry.config_source, entry.read_only) == ("1024", 5, True)
    (result,) = await describe(follower, described(""))
    assert list(result.configs) == []


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
@pytest.mark.parametrize("name", ["7", ""])
async def test_no_client_sets_keys_of_a_follower(
    follower: KafkaService, api_key: ApiKey, name: str
) -> None:
    resource = altered((KEY, SET, "500"), name=name)
    for validate_only in (True, False):
        [(code, text)] = await alter(
            follower, resource, api_key=api_key, validate_only=validate_only
        )
        assert code == ErrorCode.INVALID_REQUEST
        assert text is not None
        assert "change them in its configuration file, and send SIGHUP" in text
    assert max_connections(follower) == 1024
    assert follower.running.log.batches == []


async def test_guarded_keys_of_a_follower_change_by_a_reload_alone(follower: KafkaService) -> None:
    changes = (("super.users", SET, ALICE), ("allow.everyone.if.no.acl.found", DELETE, None))
    [(code, _)] = await alter(follower, altered(*changes))
    assert code == ErrorCode.INVALID_REQUEST
    assert ALICE not in follower.settings.super_users
    follower.read = lambda: read_configuration(*FOLLOW, f"super.users={ALICE}", f"{KEY}=70")
    await follower.settings.reload()
    assert follower.settings.super_users == {ALICE}
    assert max_connections(follower) == 70


async def test_credentials_of_a_follower_are_described_as_null(follower: KafkaService) -> None:
    (result,) = await describe(follower, described("7"))
    entries = {each.name: each for each in result.configs}
    for key in ("sasl.jaas.config", "listener.name.controller.plain.sasl.jaas.config"):
        assert entries[key].value is None
        assert entries[key].is_sensitive
    assert entries["controller.quorum.bootstrap.servers"].value == "c1:9093"
    assert entries["authorizerd.writes"].value == "refuse"
    assert "hidden" not in repr([*entries.values()])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("controller.quorum.bootstrap.servers=c2:9093", "controller.quorum.bootstrap.servers"),
        (
            "listener.name.controller.ssl.truststore.location=/u",
            "listener.name.controller.ssl.truststore.location",
        ),
        ("ssl.keystore.location=/k", "ssl.keystore.location"),
        ("ssl.truststore.location=/u", ""),
    ],
)
async def test_changed_way_to_the_cluster_needs_a_restart(
    follower: KafkaService, caplog: pytest.LogCaptureFixture, line: str, named: str
) -> None:
    """The last key is not used: the controllers' listener has its own."""
    follower.read = lambda: read_configuration(*FOLLOW, line)
    await follower.settings.reload()
    warned = [each.getMessage() for each in caplog.records if "restart" in each.getMessage()]
    assert warned == ([f"a restart is needed for {named}"] if named else [])
