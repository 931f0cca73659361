"""DescribeConfigs: which resources and keys are described."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.config_requests import BROKER, KEY, describe, describe_key, described, invalid
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, read_configuration
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
async def test_unknown_resource_type_fails_the_whole_description(
    service: KafkaService, principal: str
) -> None:
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


async def test_repeated_resource_without_keys_is_described_with_all_keys(
    service: KafkaService,
) -> None:
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
