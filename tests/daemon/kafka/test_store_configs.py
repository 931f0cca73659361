"""Keystores and truststores that a client changes with AlterConfigs."""

import ssl
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.config.alterations import AlterOperation
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.certificates import OWN_PORTS, Certificates
from authorizerd.image.changes import ConfigChanged
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.tls.material import describe_certificate
from tests.daemon.config_requests import (
    BROKER,
    DELETE,
    KEY,
    MAY_ALTER,
    OK,
    SET,
    Result,
    alter,
    altered,
    describe_key,
    guarded,
    invalid,
    max_connections,
)
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, read_configuration
from tests.support.certificates import Authority, expired

OWN = "listener.name.secure.ssl."
LOCATION = f"{OWN}keystore.location"
PASSWORD = f"{OWN}keystore.password"
HTTP_LOCATION = "authorizerd.http.ssl.keystore.location"
Change = tuple[str, AlterOperation, str | None]


class Site:
    """A node with a listener SECURE and HTTPS, and the certificates of their ports."""

    def __init__(self, service: KafkaService, folder: Path) -> None:
        self.service = service
        self.authority = Authority(folder)
        self.keystores = {name: self.authority.issue(name) for name in ("secure", OWN_PORTS)}
        configuration = self.configuration()
        self.certificates = Certificates(configuration)
        self.certificates.prepare_reload(configuration)()
        service.read = self.configuration
        settings = service.settings
        settings.subscribe_configuration(self.certificates.prepare_reload)
        settings.subscribe_stores(self.certificates.keys, self.certificates.prepare_change)

    def configuration(self, *lines: str) -> Configuration:
        return read_configuration(
            "listeners=SECURE://h:1,PLAIN://h:2",
            "listener.security.protocol.map=SECURE:SSL,PLAIN:PLAINTEXT",
            "authorizerd.decision.http=https://127.0.0.1:8181",
            f"{LOCATION}={self.keystores['secure']}",
            f"{HTTP_LOCATION}={self.keystores[OWN_PORTS]}",
            *lines,
        )

    def serials(self) -> list[int]:
        """Return the serial numbers of the certificates in use: the listener's, and HTTPS's."""
        chains = [self.certificates.servers[name].current.chain for name in ("SECURE", OWN_PORTS)]
        return [describe_certificate(chain[0]).serial for chain in chains]

    async def change(self, *changes: tuple[str, str], validate_only: bool = False) -> Result:
        resource = altered(*((key, SET, value) for key, value in changes))
        [result] = await alter(self.service, resource, validate_only=validate_only)
        return result

    @property
    def logged(self) -> set[str]:
        """The keys that the log has."""
        configs = self.service.running.applier.cluster.newest.configs
        return {key for values in configs.values() for key in values}


@pytest.fixture
async def site(start: Start, tmp_path: Path) -> Site:
    site = Site(await start(MAY_ALTER), tmp_path)
    await site.service.settings.reload()
    return site


async def test_setting_the_same_location_reads_the_replaced_file(site: Site) -> None:
    """Only the listener's own store is read."""
    before = site.serials()
    keystore = site.authority.issue("secure")
    site.keystores[OWN_PORTS].write_text("spoiled")
    assert await site.change((LOCATION, str(keystore))) == OK
    after = site.serials()
    assert after[0] != before[0]
    assert after[1] == before[1]


async def test_decision_ports_take_up_a_replaced_file(site: Site) -> None:
    before = site.serials()
    site.authority.issue(OWN_PORTS)
    assert await site.change((HTTP_LOCATION, str(site.keystores[OWN_PORTS]))) == OK
    after = site.serials()
    assert (after[0], after[1] != before[1]) == (before[0], True)


async def test_validation_alone_changes_nothing(site: Site) -> None:
    before = site.serials()
    keystore = str(site.authority.issue("secure"))
    assert await site.change((LOCATION, keystore), validate_only=True) == OK
    assert site.serials() == before
    code, _ = await site.change((LOCATION, "/nowhere.pem"), validate_only=True)
    assert code == ErrorCode.INVALID_REQUEST


async def test_unusable_store_is_refused_and_changes_nothing(site: Site) -> None:
    before = site.serials()
    old = site.authority.issue("old", "secure.test", not_after=expired())
    for location, reason in (
        ("/nowhere.pem", "No such file or directory"),
        (str(old), "the certificate expired on 2020-01-01 at 00:00 UTC"),
    ):
        refused = invalid(f"{LOCATION}: {location}: {reason}")
        assert await site.change((LOCATION, location), (KEY, "77")) == refused
    assert site.serials() == before
    assert max_connections(site.service) == 1024
    assert (await describe_key(site.service, LOCATION)).value == str(site.keystores["secure"])


async def test_other_resource_is_changed_although_a_store_is_refused(site: Site) -> None:
    change = (LOCATION, SET, "/nowhere.pem")
    results = await alter(site.service, altered(change), altered((KEY, SET, "99"), name=""))
    assert [code for code, _ in results] == [ErrorCode.INVALID_REQUEST, 0]
    assert max_connections(site.service) == 99


@pytest.mark.parametrize("api_key", [ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS])
async def test_only_a_super_user_may_change_stores(site: Site, api_key: ApiKey) -> None:
    before = site.serials()
    keystore = str(site.authority.issue("secure"))
    version = 1 if api_key is ApiKey.INCREMENTAL_ALTER_CONFIGS else 2
    for key in (LOCATION, PASSWORD, HTTP_LOCATION):
        [result] = await alter(
            site.service,
            altered((key, SET, keystore)),
            principal=ALICE,
            api_key=api_key,
            version=version,
        )
        assert result == guarded(key)
    assert site.serials() == before


@pytest.mark.parametrize("principal", [ROOT, ALICE])
async def test_change_in_a_reload_needs_a_lasting_super_user(site: Site, principal: str) -> None:
    """The reload makes ALICE the only super user, in the place of ROOT; the change waits for it."""
    service, results = site.service, list[Result]()
    reading, released = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def read_slowly() -> Configuration:
        token.run_sync_soon(reading.set)
        released.wait()
        return site.configuration(f"super.users={ALICE}")

    async def change() -> None:
        changes = (LOCATION, SET, str(other)), ("super.users", SET, ROOT)
        results.extend(await alter(service, altered(*changes), principal=principal))

    other, before = site.authority.issue("other", "secure.test"), site.serials()
    service.read = read_slowly
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.settings.reload)
        await reading.wait()
        nursery.start_soon(change)
        await trio.testing.wait_all_tasks_blocked()
        released.set()
    assert results == [guarded(f"{LOCATION}, super.users")]
    assert service.settings.super_users == {ALICE}
    assert site.serials() == before


async def test_stores_are_not_logged_and_end_with_a_reload(site: Site) -> None:
    other = str(site.authority.issue("other", "secure.test"))
    before = site.serials()
    assert await site.change((LOCATION, other), (KEY, "500")) == OK
    assert site.serials() != before
    assert site.logged == {KEY}
    entry = await describe_key(site.service, LOCATION)
    assert (entry.value, entry.config_source) == (other, 2)
    assert (entry.read_only, entry.is_sensitive) == (False, False)
    await site.service.settings.reload()
    assert site.serials() == before
    entry = await describe_key(site.service, LOCATION)
    assert (entry.value, entry.config_source) == (str(site.keystores["secure"]), 4)


async def test_removed_key_has_the_files_value_again(site: Site) -> None:
    before = site.serials()
    other = str(site.authority.issue("other", "secure.test"))
    assert await site.change((LOCATION, other)) == OK
    assert await alter(site.service, altered((LOCATION, DELETE, None))) == [OK]
    assert site.serials() == before


async def test_store_of_brokers_in_the_log_is_ignored_and_can_be_removed(site: Site) -> None:
    """Kafka writes these keys, and passwords, to the log."""
    await site.service.commit(ConfigChanged(BROKER, "7", PASSWORD, "marker"))
    await trio.testing.wait_all_tasks_blocked()
    site.service.settings.refresh()
    assert PASSWORD not in site.service.settings.layers.merge()
    assert PASSWORD in site.logged
    assert await alter(site.service, altered((PASSWORD, DELETE, None))) == [OK]
    assert site.logged == set()


async def test_secrets_are_not_shown(site: Site) -> None:
    """This covers secrets set over the wire, inline secrets in the file, and errors."""
    authority = site.authority.ca_file.read_text().replace("\n", " ")
    site.service.read = lambda: site.configuration(
        f"ssl.truststore.certificates={authority}", "ssl.key.password=marker"
    )
    await site.service.settings.reload()
    code, text = await site.change((PASSWORD, "marker"), (f"{OWN}keystore.type", "PEM"))
    assert code == ErrorCode.INVALID_REQUEST
    assert str(text).startswith(f"{PASSWORD}: PEM has no password for the whole store")
    assert "marker" not in str(text)
    own = f"{OWN}key.password"
    assert await site.change((own, "marker")) == OK
    for name in (own, "ssl.truststore.certificates", "ssl.key.password"):
        entry = await describe_key(site.service, name)
        assert (entry.value, entry.is_sensitive, entry.config_type) == (None, True, 9)
        assert all(synonym.value is None for synonym in entry.synonyms)


async def test_listeners_key_has_the_general_one_as_a_synonym(site: Site) -> None:
    site.service.read = lambda: site.configuration("ssl.keystore.location=/general.pem")
    await site.service.settings.reload()
    entry = await describe_key(site.service, LOCATION)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        (LOCATION, str(site.keystores["secure"]), 4),
        ("ssl.keystore.location", "/general.pem", 4),
    ]


@pytest.mark.parametrize(
    ("name", "resource", "reason"),
    [
        (
            "ssl.keystore.location",
            "7",
            "These security configs can be dynamically updated only per-listener using the listener"
            " prefix: [ssl.keystore.location]",
        ),
        (
            LOCATION,
            "",
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{LOCATION}]",
        ),
        (
            "listener.name.plain.ssl.keystore.location",
            "7",
            "No port of this node has TLS with these keys:"
            " [listener.name.plain.ssl.keystore.location]. Expected listener.name.NAME. with the"
            " lower-case name of a listener with TLS, or authorizerd.http.",
        ),
    ],
)
async def test_key_needs_its_own_port(site: Site, name: str, resource: str, reason: str) -> None:
    result = await alter(site.service, altered((name, SET, "/k.pem"), name=resource))
    assert result == [invalid(reason)]


async def test_certificate_for_other_names_needs_the_files_permission(site: Site) -> None:
    """As in Kafka: a client with the right to alter configs must not take over the name."""
    other_host = str(site.authority.issue("x", "other.test"))
    other_name = str(site.authority.issue("y", "secure.test", common_name="other"))
    more_hosts = str(site.authority.issue("z", "secure.test", "more.test"))
    code, text = await site.change((LOCATION, other_host))
    assert code == ErrorCode.INVALID_REQUEST
    assert str(text).endswith(
        "the certificate lacks the names secure.test: set ssl.allow.san.changes=true in the file"
        " to allow that"
    )
    code, text = await site.change((LOCATION, other_name))
    assert "set ssl.allow.dn.changes=true" in str(text)
    assert await site.change((LOCATION, more_hosts)) == OK
    site.service.read = lambda: site.configuration(
        "ssl.allow.dn.changes=true", f"{OWN}allow.san.changes=true"
    )
    await site.service.settings.reload()
    assert await site.change((LOCATION, other_host)) == OK
    assert await site.change((LOCATION, other_name)) == OK


async def test_newest_of_several_changes_wins(site: Site) -> None:
    """Changes and reloads at the same time are made one after the other."""
    locations = [str(site.authority.issue(f"n{number}", "secure.test")) for number in range(5)]
    async with trio.open_nursery() as nursery:
        for location in locations:
            nursery.start_soon(site.change, (LOCATION, location))
            nursery.start_soon(site.service.settings.reload)
    entry = await describe_key(site.service, LOCATION)
    leaf = site.certificates.servers["SECURE"].current.chain[0]
    assert entry.value in (*locations, str(site.keystores["secure"]))
    settings = site.certificates.servers["SECURE"].settings
    assert settings.keystore is not None
    assert settings.keystore.location == entry.value
    assert read_leaf(entry.value) == leaf


def read_leaf(location: str) -> bytes:
    text = Path(location).read_text().partition("-----BEGIN CERTIFICATE-----")[2]
    return ssl.PEM_cert_to_DER_cert(
        f"-----BEGIN CERTIFICATE-----{text.partition('-----END CERTIFICATE-----')[0]}"
        "-----END CERTIFICATE-----\n"
    )
