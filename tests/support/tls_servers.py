"""The TLS of a port, for tests."""

from pathlib import Path

from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.tls import ClientAuth, TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.tls.material import read_material
from authorizerd.tls.server import TlsServer, prepare_tls
from tests.support.certificates import Authority

NAMES = {key.name: key.name for key in ssl_keys()}


def server_settings(
    authority: Authority,
    rules: str = "DEFAULT",
    trusted: Path | None = None,
    client_auth: ClientAuth = ClientAuth.REQUIRED,
) -> TlsSettings:
    values = {
        "ssl.keystore.location": str(authority.issue("server", "localhost")),
        "ssl.truststore.location": str(trusted or authority.ca_file),
        "ssl.client.auth": client_auth,
        "ssl.principal.mapping.rules": PrincipalMapping.parse(rules),
    }
    return new_tls_settings(values, NAMES)


def new_tls_server(settings: TlsSettings) -> TlsServer:
    return TlsServer(settings, prepare_tls(settings, read_material(settings)))
