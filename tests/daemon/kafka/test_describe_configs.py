"""DescribeConfigs, and the configs of a daemon that follows a cluster: only its file sets them."""

from types import SimpleNamespace

import pytest

from authorizerd.acl.steps import finish
from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import APIS, ApiKey
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
    invalid,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, read_configuration
from tests.support.kio_codec import encode_request


@pytest.mark.parametrize("version", APIS[ApiKey.DESCRIBE_CONFIGS].versions)
async def test_every_key_is_described(service: KafkaService, version: int) -> None:
    """Fixed keys are read-only, and no password is shown."""
    (result,) = await describe(service, version=version)
    entries = {entry.name: entry for entry in result.configs}
    assert list(entries) == sorted(entries)
    assert (entries["node.id"].value, entries["node.id"].read_only) == ("7", True)
    assert (entries["super.users"].value, entries["super.users"].read_only) == (ROOT, False)
    assert not any(entry.is_sensitive for entry in result.configs)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("2", BROKER, "Unexpected broker id, expected 7 or empty string, but received 2"),
        ("x", BROKER, "Broker id must be an integer, but it is: x"),
        ("t", 7, ErrorCode.INVALID_REQUEST.text),
    ],
)
async def test_other_nodes_and_types_are_not_described(
    service: KafkaService, name: str, kind: int, text: str
) -> None:
    (result,) = await describe(service, described(name, kind=kind))
    assert (result.error_code, result.error_message) == invalid(text)
    assert list(result.configs) == []


@pytest.mark.parametrize("principal", [ROOT, ALICE])
async def test_unknown_type_fails_whole_description(service: KafkaService, principal: str) -> None:
    """This holds for any caller. A type that only Kafka has fails only its own resource."""
    results = await describe(
        service, described(), described("x", kind=9), described(), principal=principal
    )
    codes = [(each.resource_name, each.error_code) for each in results]
    assert codes == [("7", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.INVALID_REQUEST)]
    first, _ = await describe(service, described(), described(kind=2), principal=principal)
    assert (first.error_code == 0) == (principal == ROOT)


async def test_unknown_key_is_described_as_a_secret(service: KafkaService) -> None:
    """It may be a plug-in's password, and only the file changes it."""
    service.read = lambda: read_configuration("no.such.key=x")
    await service.settings.reload()
    entry = await describe_key(service, "no.such.key", name="07")
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
    assert [each.value for each in entry.synonyms] == [None]


@pytest.mark.parametrize("principal", [ROOT, ALICE])
async def test_repeated_resource_is_described_once(service: KafkaService, principal: str) -> None:
    """Its number may be spelled differently. The keys of all repeats are described."""
    results = await describe(
        service,
        described("7", [KEY]),
        described("8"),
        described("07", ["node.id"]),
        described(""),
        described("7", [KEY]),
        described("07", kind=2),
        described("7", kind=2),
        principal=principal,
    )
    names = [(each.resource_type, each.resource_name) for each in results]
    assert names == [(BROKER, "7"), (BROKER, "8"), (BROKER, ""), (2, "07"), (2, "7")]
    keys = {each.name for each in results[0].configs}
    assert keys == ({KEY, "node.id"} if principal == ROOT else set())


async def test_repeated_resource_without_keys_is_described_whole(service: KafkaService) -> None:
    every = {each.name for each in (await describe(service))[0].configs}
    for keys in ([KEY], None), (None, [KEY]):
        (result,) = await describe(service, *(described("7", each) for each in keys))
        assert {each.name for each in result.configs} == every


async def test_repeats_do_not_enlarge_the_answer(service: KafkaService) -> None:
    """Otherwise a few repeated bytes would get megabytes in return."""
    sizes = []
    for count in (1, 2000):
        fields = SimpleNamespace(
            resources=[described()] * count, include_synonyms=True, include_documentation=True
        )
        body = finish(encode_request(ApiKey.DESCRIBE_CONFIGS, 4, fields))
        sizes.append(len(await service.raw(ApiKey.DESCRIBE_CONFIGS, 4, body)))
    assert sizes[0] == sizes[1]


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
async def follower(start: Start) -> KafkaService:
    return await start(cluster_changes=OF_BROKERS, lines=FOLLOW)


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
