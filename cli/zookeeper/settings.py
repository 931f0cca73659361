"""Settings for ZooKeeper: Kafka's ``zookeeper.*`` keys, as in a broker's server.properties.

Kafka has no keys for ZooKeeper's credentials: a broker takes them from a JAAS file. So there are
two additional keys:

    authorizerd.zookeeper.sasl.jaas.config=org.apache.zookeeper.server.auth.DigestLoginModule \\
        required username="kafka" password="…";
    authorizerd.zookeeper.digest=user:password

As in AclAuthorizer, a key with the prefix ``authorizer.`` takes precedence over the same key
without it. All other keys are ignored, so that the file can be a broker's.

**Invariant:** no error or ``repr`` contains a password. A file with TLS settings never leads to a
connection without TLS, unless it turns TLS off explicitly.

Source: Kafka 3.9 ZkConfigs, KafkaConfig, AclAuthorizer.zkClientConfigFromKafkaConfigAndMap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from authorizerd.cli.configuration_file import read_configuration_text
from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.config import tls_keys
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.jaas import parse_login_options
from authorizerd.config.key_values import refuse_property
from authorizerd.config.properties import Property, parse_properties
from authorizerd.config.providers import resolve_placeholders
from authorizerd.config.tls import InvalidTlsError, StoreType, TlsSettings, new_tls_settings
from authorizerd.config.values import IntegerParser, boolean, choice, path, trim
from authorizerd.management.zookeeper.paths import why_not_a_znode

PORT_DEFAULT: Final = 2181
SERVERS_MAX: Final = 100
_SERVER: Final = re.compile(
    r"(?P<host>[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?"
)


class Ensemble(NamedTuple):
    """The servers, and the path of the cluster's znodes: ``/chroot/path``, or empty."""

    servers: tuple[str, ...]
    chroot: str

    def __str__(self) -> str:
        """Return the text that Kafka and kazoo accept."""
        return f"{','.join(self.servers)}{self.chroot}"


def parse_address(text: str) -> Ensemble:
    """Return the servers and the chroot of an address."""
    listed, slash, path = text.partition("/")
    servers = tuple(_parse_server(each.strip()) for each in listed.split(","))
    if len(servers) > SERVERS_MAX:
        raise ZooKeeperError(f"expected at most {SERVERS_MAX} servers, found {len(servers)}")
    chroot = ""
    if slash and path:
        for name in path.removesuffix("/").split("/"):
            if reason := why_not_a_znode(name):
                raise ZooKeeperError(f"zookeeper://{text}: invalid chroot /{path}: {reason}")
            chroot += f"/{name}"
    return Ensemble(servers, chroot)


def _parse_server(text: str) -> str:
    match = _SERVER.fullmatch(text)
    if match is None or not 0 < int(match["port"] or PORT_DEFAULT) < 65536:
        # Do not show the whole text: a password before the host would end up in logs.
        shown = text.rpartition("@")[2]
        raise ZooKeeperError(
            f"expected zookeeper://HOST:PORT,HOST:PORT/chroot, found the server {shown!r}; "
            "credentials and TLS settings belong in the file of --command-config"
        )
    return f"{match['host']}:{match['port'] or PORT_DEFAULT}"


FLAG: Final = "--command-config"
DIGEST_LOGIN_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
SESSION_TIMEOUT_MS: Final = 18_000
"""Kafka's default of zookeeper.session.timeout.ms, and thus of zookeeper.connection.timeout.ms."""

_OVERLAY: Final = "authorizer."
_JAAS: Final = "authorizerd.zookeeper.sasl.jaas.config"
_DIGEST: Final = "authorizerd.zookeeper.digest"
_SSL: Final = "zookeeper.ssl."
_ENABLE: Final = "zookeeper.ssl.client.enable"
_PEM_SUFFIX: Final = ".pem"
_TIMEOUT: Final = IntegerParser(100, 600_000)

_TLS_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "ssl.keystore.location": path,
    "ssl.keystore.password": tls_keys.secret_text,
    "ssl.keystore.type": choice(StoreType),
    "ssl.truststore.location": path,
    "ssl.truststore.password": tls_keys.secret_text,
    "ssl.truststore.type": choice(StoreType),
    "ssl.protocol": tls_keys.tls_versions,
    "ssl.enabled.protocols": tls_keys.tls_versions,
    "ssl.cipher.suites": tls_keys.cipher_suites,
    "ssl.endpoint.identification.algorithm": tls_keys.endpoint_identification,
}
"""The keys for TLS. Without the prefix ``zookeeper.``, they are Kafka's ``ssl.*`` keys."""
_UNSUPPORTED: Final = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")
_DEFAULT_VERSIONS: Final = "TLSv1.2"
"""Kafka's default of zookeeper.ssl.protocol."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password, for SASL DIGEST-MD5 or for ZooKeeper's scheme ``digest``."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """How to connect. ``connection_timeout_ms`` also limits the wait after a lost connection."""

    session_timeout_ms: int = SESSION_TIMEOUT_MS
    connection_timeout_ms: int = SESSION_TIMEOUT_MS
    tls: TlsSettings | None = None
    sasl: Login | None = None
    digest: Login | None = None

    @property
    def is_authenticated(self) -> bool:
        """True if ZooKeeper knows the user, by authentication or by a client's certificate."""
        has_certificate = self.tls is not None and self.tls.keystore is not None
        return self.sasl is not None or self.digest is not None or has_certificate


def read_settings(file: Path | None) -> ZooKeeperSettings:
    """Return the settings of a properties file, or the defaults without one. Blocks."""
    if file is None:
        return ZooKeeperSettings()
    text = read_configuration_text(file, f"{FLAG}: ")
    keys = _Keys(resolve_placeholders(parse_properties(text, source=str(file))))
    session_timeout_ms = keys.read("zookeeper.session.timeout.ms", _TIMEOUT)
    connection_timeout_ms = keys.read("zookeeper.connection.timeout.ms", _TIMEOUT)
    session_timeout_ms = session_timeout_ms or SESSION_TIMEOUT_MS
    return ZooKeeperSettings(
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=connection_timeout_ms or session_timeout_ms,
        tls=_read_tls(keys),
        sasl=keys.read(_JAAS, _parse_jaas),
        digest=keys.read(_DIGEST, _parse_digest),
    )


class _Keys:
    """The keys of a file; keys that are only for AclAuthorizer take precedence."""

    def __init__(self, properties: Mapping[str, Property]) -> None:
        self._properties = properties

    def find(self, name: str) -> Property | None:
        """Return the property in force for a key, or None."""
        return self._properties.get(_OVERLAY + name) or self._properties.get(name)

    def read(self, name: str, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - as parse
        """Return the parsed value of a key, or None if it is not set."""
        found = self.find(name)
        if found is None:
            return None
        try:
            return parse(trim(found.value))
        except InvalidValueError as error:
            raise self.refusal(name, str(error)) from None

    def refusal(self, name: str, reason: str) -> ConfigurationError:
        """Return the error for a key that is set."""
        found = self.find(name)
        assert found is not None, "only keys that are set are refused"
        return refuse_property(found, reason)

    def find_tls(self) -> Property | None:
        """Return a property that configures TLS but does not turn it on or off, or None."""
        for each in self._properties.values():
            name = each.key.removeprefix(_OVERLAY)
            if name.startswith(_SSL) and name not in (_ENABLE, *_UNSUPPORTED):
                return each
        return None


def _read_tls(keys: _Keys) -> TlsSettings | None:
    is_enabled = keys.read(_ENABLE, boolean)
    if is_enabled is None and (found := keys.find_tls()) is not None:
        reason = f"set {_ENABLE} as well: true for TLS, or false for none"
        raise ConfigurationError(found.source, found.line, found.key, reason)
    if not is_enabled:
        return None
    for name in _UNSUPPORTED:
        if keys.read(name, boolean):
            raise keys.refusal(name, "revocation lists are not supported: set false")
    read = {name: keys.read(f"zookeeper.{name}", parse) for name, parse in _TLS_PARSERS.items()}
    values = {name: value for name, value in read.items() if value is not None}
    protocols = values.pop("ssl.protocol", None) or tls_keys.tls_versions(_DEFAULT_VERSIONS)
    values.setdefault("ssl.enabled.protocols", protocols)
    _move_pem_passwords(values)
    names = {name: f"zookeeper.{name}" for name in (*_TLS_PARSERS, "ssl.key.password")}
    try:
        return new_tls_settings(values, names)
    except InvalidTlsError as error:
        raise keys.refusal(error.key, str(error)) from None


def _move_pem_passwords(values: dict[str, Any]) -> None:
    """Use the password of a PEM keystore for its key, as ZooKeeper does."""
    location = values.get("ssl.keystore.location", "")
    if values.get("ssl.keystore.type") is StoreType.PEM or location.endswith(_PEM_SUFFIX):
        password = values.pop("ssl.keystore.password", None)
        if password:
            values["ssl.key.password"] = password
    location = values.get("ssl.truststore.location", "")
    if values.get("ssl.truststore.type") is StoreType.PEM or location.endswith(_PEM_SUFFIX):
        values.pop("ssl.truststore.password", None)


def _parse_jaas(text: str) -> Login:
    options = parse_login_options(text, (DIGEST_LOGIN_MODULE,))
    if not (options.get("username") and options.get("password")):
        raise InvalidValueError("username and password must be given")
    return Login(options["username"], options["password"])


def _parse_digest(text: str) -> Login:
    username, colon, password = text.partition(":")
    if not (username and colon and password):
        raise InvalidValueError("expected USER:PASSWORD")
    return Login(username, password)
