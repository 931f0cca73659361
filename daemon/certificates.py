"""The certificates of this process's ports: loaded at the start, and again at each reload.

A *store* is a keystore or a truststore. *Our own ports* are the decision, admin and metrics ports.

**Invariant:** an unusable store changes nothing: the ports keep their current certificates. After a
reload, callers of the decision ports need credentials if they did before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import authorizerd.config.principals.rules  # noqa: F401 - a reload must not load it in the event loop
from authorizerd.config.configuration import Configuration, parse_values
from authorizerd.config.keys import listener_prefix
from authorizerd.config.tls import ClientAuth, TlsSettings
from authorizerd.config.tls_keys import HTTP_SSL_PREFIX, RELOADABLE_SSL_KEYS, is_http_ssl_key
from authorizerd.daemon.errors import StartError
from authorizerd.protocol.worker_feed import (
    Stores,
)
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import (
    Material,
    Validity,
    describe_certificate,
    describe_place,
    find_other_name,
    read_material,
)
from authorizerd.tls.server import PreparedTls, TlsServer, prepare_tls

OWN_PORTS: Final = "http"
METRICS_PORT: Final = "metrics"
"""Names for the TLS of our own ports. The listeners' names are in upper case."""
KEYSTORE: Final = "keystore"
TRUSTSTORE: Final = "truststore"

EXPIRES_SOON: Final = timedelta(days=14)
LISTED_MAX: Final = 20
"""Maximum number of certificates listed per store. The ones that expire first are listed."""

_logger = logging.getLogger("authorizerd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A certificate in use, and its position in the store; 0 is the server's own certificate."""

    port: str
    store: str
    position: int
    validity: Validity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """The TLS of one port, ready to be used."""

    settings: TlsSettings
    material: Material = field(repr=False)
    tls: PreparedTls
    listed: tuple[Listed, ...]
    """The server's own certificate is the first."""

    def has_chain_of(self, other: _Loaded | None) -> bool:
        return other is not None and self.material.chain == other.material.chain


class Certificates:
    """Load, list and replace the certificates of every port with TLS.

    Each listener has its own. The decision, admin and metrics ports share certificates; the metrics
    port never asks for client certificates. Which ports have TLS is fixed at the start.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration: Final = configuration
        self._settings: Mapping[str, TlsSettings] = tls_settings(configuration)
        self._http_texts: Mapping[str, str] = http_ssl_texts(configuration)
        self._loaded: Mapping[str, _Loaded] = {}
        self.servers: Mapping[str, TlsServer] = {}
        self._end_identified: Callable[[TlsServer], None] = lambda tls: None
        self._require_credentials: Callable[[], None] = lambda: None

    @property
    def own_ports(self) -> TlsServer | None:
        """TLS of the decision ports and the admin port; None if they have none."""
        return self.servers.get(OWN_PORTS)

    @property
    def metrics_port(self) -> TlsServer | None:
        """TLS of the metrics port, which asks for no client certificate; None if it has none."""
        return self.servers.get(METRICS_PORT)

    @property
    def listed(self) -> list[Listed]:
        """The certificates in use. The metrics port's are duplicates, so they are left out."""
        loaded = [each for name, each in self._loaded.items() if name != METRICS_PORT]
        return [certificate for each in loaded for certificate in each.listed]

    @property
    def stores(self) -> Stores | None:
        """The settings and certificates of our own ports, for workers."""
        loaded = self._loaded.get(OWN_PORTS)
        if loaded is None:
            return None
        material = loaded.material
        return Stores(dict(self._http_texts), material.chain, material.key, material.trusted)

    def on_lost_trust(self, end_identified: Callable[[TlsServer], None]) -> None:
        """Call ``end_identified`` with each TLS whose clients must be identified again.

        This is necessary if a CA was removed from the truststore, or the mapping rules changed.
        """
        self._end_identified = end_identified

    def on_client_auth(self, require_credentials: Callable[[], None]) -> None:
        """Call ``require_credentials`` after a reload if our own ports ask for certificates."""
        self._require_credentials = require_credentials

    def prepare_reload(
        self,
        configuration: Configuration,
        ports: Collection[str] | None = None,
        *,
        keeps_names: bool = False,
    ) -> Callable[[], None]:
        """Read the stores, and return a function that applies them. Reading blocks.

        A port without TLS in ``configuration`` keeps its own: switching TLS off needs a restart.

        Args:
            ports: the ports whose stores are read; None means all ports with TLS.
            keeps_names: True to reject a certificate with different names, unless the settings
                allow it.

        Raises:
            StartError: a store cannot be used, its certificate is not valid now while another
                is in use, or callers would no longer need credentials.
        """
        wanted = tls_settings(configuration)
        settings = {
            name: wanted.get(name, current)
            for name, current in self._settings.items()
            if ports is None or name in ports
        }
        self._check_credentials(settings.get(OWN_PORTS))
        has_own = OWN_PORTS in settings and OWN_PORTS in wanted
        texts = http_ssl_texts(configuration) if has_own else self._http_texts
        try:
            materials = {name: read_material(each) for name, each in settings.items()}
        except StoreError as error:
            raise StartError(str(error)) from error
        if keeps_names:
            for name, each in settings.items():
                self._check_names(name, each, materials[name])
        return self._prepare(settings, materials, texts, report=_report)

    def prepare_renewal(self) -> Callable[[], None]:
        """Return a function that gives every port new keys for session tickets.

        It changes nothing on ports whose stores were read again in between.

        Raises:
            OSError: the system is short of resources.
        """
        before = self._loaded
        fresh = {
            name: replace(each, tls=prepare_tls(each.settings, each.material))
            for name, each in before.items()
        }

        def apply() -> None:
            for name, each in fresh.items():
                if self._loaded[name] is before[name]:
                    self._loaded = {**self._loaded, name: each}
                    self.servers[name].use(each.settings, each.tls)

        return apply

    @property
    def keys(self) -> frozenset[str]:
        """The keys of stores that a client may set."""
        return frozenset[str]().union(*map(_store_keys, self._ports))

    @property
    def _ports(self) -> list[str]:
        return [name for name in self._settings if name != METRICS_PORT]

    def prepare_change(
        self, values: Mapping[str, str], changed: Collection[str]
    ) -> Callable[[], None]:
        """Read the stores of the ports that the ``changed`` keys affect; see ``prepare_reload``.

        As in Kafka, the server's names must not change, unless ``ssl.allow.dn.changes`` and
        ``ssl.allow.san.changes`` permit other names.

        Args:
            values: the text of every key that is set.

        Raises:
            StartError: see ``prepare_reload``; or the certificate is for other names.
            ConfigurationError: the values contradict each other.
        """
        configuration = parse_values(values, source="AlterConfigs")
        ports = {name for name in self._ports if not _store_keys(name).isdisjoint(changed)}
        if OWN_PORTS in ports:
            ports.add(METRICS_PORT)
        return self.prepare_reload(configuration, ports, keeps_names=True)

    def prepare_stores(self, stores: Stores | None) -> Callable[[], None]:
        """Return a function that applies the daemon's ``stores`` in a worker. Takes about 20 ms.

        Raises:
            StartError: see ``prepare_reload``.
            ConfigurationError: the settings are invalid.
        """
        if stores is None:
            return lambda: None
        values = self._configuration.file_values
        others = {name: text for name, text in values.items() if not is_http_ssl_key(name)}
        configuration = parse_values(others | stores.texts, source="the daemon's configuration")
        settings = {OWN_PORTS: tls_settings(configuration)[OWN_PORTS]}
        material = Material(stores.chain, stores.key, stores.trusted)
        return self._prepare(settings, {OWN_PORTS: material}, stores.texts)

    def _prepare(
        self,
        settings: Mapping[str, TlsSettings],
        materials: Mapping[str, Material],
        texts: Mapping[str, str],
        report: Callable[[str, Validity], None] = lambda port, validity: None,
    ) -> Callable[[], None]:
        loaded = {
            name: self._prepare_port(name, each, materials[name]) for name, each in settings.items()
        }

        def apply() -> None:
            self._settings = {**self._settings, **settings}
            self._http_texts = texts
            before, self._loaded = self._loaded, {**self._loaded, **loaded}
            for name, each in loaded.items():
                if name != METRICS_PORT and not each.has_chain_of(before.get(name)):
                    report(name, each.listed[0].validity)
                server = self.servers.get(name)
                if server is None:
                    server = TlsServer(each.settings, each.tls)
                    self.servers = {**self.servers, name: server}
                elif server.use(each.settings, each.tls):
                    self._end_identified(server)
                if name == OWN_PORTS and server.identifies_clients:
                    self._require_credentials()

        return apply

    def _prepare_port(self, name: str, settings: TlsSettings, material: Material) -> _Loaded:
        assert settings.keystore is not None, "a server has a keystore"
        try:
            prepared = prepare_tls(settings, material)
            listed = list_certificates(name, material)
        except StoreError as error:
            raise StartError(str(error)) from error
        loaded = _Loaded(settings=settings, material=material, tls=prepared, listed=listed)
        problem = _find_problem(listed[0].validity)
        if problem is not None:
            place, before = describe_place(settings.keystore), self._loaded.get(name)
            if before is not None and not loaded.has_chain_of(before):
                raise StartError(f"{place}: the certificate {problem}")
            # Start anyway: clients will reject this certificate, but the other ports still work.
            _logger.error(
                "%s: the certificate in use %s: replace it, then send SIGHUP", place, problem
            )
        return loaded

    def _check_names(self, port: str, settings: TlsSettings, material: Material) -> None:
        assert settings.keystore is not None, "a server has a keystore"
        before = self._loaded[port].material.chain[0]
        difference = find_other_name(before, material.chain[0], settings)
        if difference is not None:
            raise StartError(f"{describe_place(settings.keystore)}: {difference}")

    def _check_credentials(self, settings: TlsSettings | None) -> None:
        current = self._settings.get(OWN_PORTS)
        if settings is None or current is None or self._configuration.tokens_file is not None:
            return
        if settings.client_auth is ClientAuth.NONE and current.client_auth is not ClientAuth.NONE:
            raise StartError(
                f"{HTTP_SSL_PREFIX}ssl.client.auth: callers of the decision ports would no longer"
                " need credentials: only a restart can change that"
            )


def _store_keys(port: str) -> frozenset[str]:
    prefix = HTTP_SSL_PREFIX if port == OWN_PORTS else listener_prefix(port)
    return frozenset(prefix + key for key in RELOADABLE_SSL_KEYS)


def tls_settings(configuration: Configuration) -> dict[str, TlsSettings]:
    """Return the TLS settings by listener, and those of our own ports."""
    settings = dict(configuration.listener_tls)
    if configuration.http_tls is not None:
        settings[OWN_PORTS] = configuration.http_tls
        if configuration.metrics_http is not None and configuration.metrics_http.is_tls:
            settings[METRICS_PORT] = configuration.http_tls.without_client_auth()
    return settings


def http_ssl_texts(configuration: Configuration) -> dict[str, str]:
    """Return the texts of the keys ``authorizerd.http.ssl.*``."""
    values = configuration.file_values
    return {name: text for name, text in values.items() if is_http_ssl_key(name)}


def list_certificates(port: str, material: Material) -> tuple[Listed, ...]:
    """Return the certificates of both stores; of a large store, only those that expire first.

    Raises:
        StoreError: a certificate is malformed.
    """
    listed = []
    for store, certificates in ((KEYSTORE, material.chain), (TRUSTSTORE, material.trusted)):
        described = [
            Listed(
                port=port,
                store=store,
                position=position,
                validity=describe_certificate(certificate),
            )
            for position, certificate in enumerate(certificates)
        ]
        first = 1 if store == KEYSTORE else 0  # the server's own certificate is always listed
        others = sorted(described[first:], key=lambda each: each.validity.not_after)
        listed += described[:first] + others[: LISTED_MAX - first]
    return tuple(listed)


def _find_problem(validity: Validity) -> str | None:
    now = datetime.now(UTC)
    if validity.not_after <= now:
        return f"expired on {validity.not_after:%Y-%m-%d at %H:%M} UTC"
    if validity.not_before > now:
        return f"is valid only from {validity.not_before:%Y-%m-%d at %H:%M} UTC"
    return None


def _report(port: str, validity: Validity) -> None:
    serial, until = validity.serial_text, f"{validity.not_after:%Y-%m-%d %H:%M} UTC"
    if validity.not_after <= datetime.now(UTC):
        return  # logged as an error when it was loaded
    if validity.not_after - datetime.now(UTC) < EXPIRES_SOON:
        _logger.warning("%s: certificate %s expires soon, on %s", port, serial, until)
    else:
        _logger.info("%s: certificate %s is valid until %s", port, serial, until)
