"""The certificates of this process's ports: loaded at the start, and again at each reload.

**Invariant:** a store that cannot be used changes nothing: the ports keep the certificates that
they have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import astuple

from authorizerd.config.configuration import Configuration
from authorizerd.config.tls import TlsSettings
from authorizerd.daemon.errors import StartError
from authorizerd.protocol.worker_feed import Stores
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import Material, describe_certificate, read_material
from authorizerd.tls.server import PreparedTls, TlsServer, prepare_tls

OWN_PORTS: Final = "http"
METRICS_PORT: Final = "metrics"
"""The names under which our own ports have their certificates. Listeners' are in upper case."""

_logger = logging.getLogger("authorizerd")


class Certificates:
    """The TLS of every port that has it. Ports of our own share one; each listener has its own."""

    def __init__(self, configuration: Configuration) -> None:
        self._settings: Final = tls_settings(configuration)
        self.materials: Mapping[str, Material] = {}
        self.servers: Mapping[str, TlsServer] = {}
        self._end_identified: Callable[[TlsServer], None] = lambda tls: None

    @property
    def own_ports(self) -> TlsServer | None:
        """TLS of the decision ports and the admin port; None if they have none."""
        return self.servers.get(OWN_PORTS)

    @property
    def stores(self) -> Stores | None:
        """The content of the stores of our own ports, for workers."""
        material = self.materials.get(OWN_PORTS)
        return None if material is None else astuple(material)

    def prepare_stores(self, stores: Stores | None) -> Callable[[], None]:
        """Return a function that applies what ``stores`` of the daemon returned.

        Raises:
            StartError: see ``prepare_reload``.
        """
        return self.prepare({} if stores is None else {OWN_PORTS: Material(*stores)})

    @property
    def metrics_port(self) -> TlsServer | None:
        """TLS of the metrics port, which asks for no client certificate; None if it has none."""
        return self.servers.get(METRICS_PORT)

    def on_lost_authority(self, end_identified: Callable[[TlsServer], None]) -> None:
        """Call ``end_identified`` with each TLS whose truststore loses an authority."""
        self._end_identified = end_identified

    def prepare_reload(self) -> Callable[[], None]:
        """Read the stores again, and return a function that applies them. Reading blocks.

        Raises:
            StartError: a store cannot be used, or has an expired certificate while the one in use
                is still valid.
        """
        try:
            return self.prepare(
                {name: read_material(settings) for name, settings in self._settings.items()}
            )
        except StoreError as error:
            raise StartError(str(error)) from error

    def prepare(self, materials: Mapping[str, Material]) -> Callable[[], None]:
        """Return a function that applies the content of the stores, which were read elsewhere.

        Raises:
            StartError: see ``prepare_reload``.
        """
        prepared = {
            name: self._prepare(name, materials[name])
            for name in self._settings
            if name in materials
        }

        def apply() -> None:
            for name, each in prepared.items():
                server = self.servers.get(name)
                if server is None:
                    settings = self._settings[name]
                    self.servers = {**self.servers, name: TlsServer(name, settings, each)}
                elif server.use(each):
                    self._end_identified(server)
            self.materials = materials

        return apply

    def _prepare(self, name: str, material: Material) -> PreparedTls:
        settings = self._settings[name]
        try:
            prepared = prepare_tls(settings, material)
            not_after = describe_certificate(material.chain[0]).not_after
        except StoreError as error:
            raise StartError(str(error)) from error
        if not_after <= datetime.now(UTC):
            assert settings.keystore is not None, "a server has a keystore"
            text = f"{settings.keystore.key_name}: the certificate expired on {not_after:%Y-%m-%d}"
            if name in self.servers:
                raise StartError(text)
            # Clients refuse it anyway, and the other ports are needed.
            _logger.error("%s", text)
        return prepared


def tls_settings(configuration: Configuration) -> dict[str, TlsSettings]:
    """Return the TLS settings by listener, and those of our own ports."""
    settings = dict(configuration.listener_tls)
    if configuration.http_tls is not None:
        settings[OWN_PORTS] = configuration.http_tls
        if configuration.metrics_http is not None and configuration.metrics_http.is_tls:
            settings[METRICS_PORT] = configuration.http_tls.without_client_auth()
    return settings
