"""Listening addresses: Kafka's ``NAME://host:port`` and our own ``http://host:port``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, ip_address

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.values import SecurityProtocol, invalid, path, some_words

NONROUTABLE_HOST = "0.0.0.0"  # noqa: S104 - compared with, never bound

# A negative port matches too, so that the error can name the port.
_ADDRESS = re.compile(
    r"(?P<name>.+)://(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<host>[0-9A-Za-z%._-]*)):(?P<port>-?[0-9]{1,10})"
)
_PORT_MAX = 65535
_UNIX_PREFIX = "unix:"
_UNIX_PATH_BYTES_MAX = 107  # sockaddr_un has 108 bytes, including the final NUL
_LOOPBACK_IPV4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_IPV6 = IPv6Address("::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An entry of ``listeners``. Host None means every interface, port 0 any free port."""

    name: str
    host: str | None
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener with its security protocol. Source: Kafka 4.3 org.apache.kafka.common.Endpoint."""

    listener_name: str
    security_protocol: SecurityProtocol
    host: str | None
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEndpoint:
    """An address that serves HTTP.

    An IPv6 host has no brackets. Host None means every interface.
    """

    host: str | None
    port: int
    is_tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEndpoint:
    """The address of the decision stream: a Unix socket's path, or a host and port."""

    host: str | None = None
    port: int = 0
    path: str | None = None
    is_tls: bool = False


def parse_stream_endpoint(text: str) -> StreamEndpoint | None:
    """Return the endpoint of ``tcp://host:port``, ``tls://host:port`` or ``unix:PATH``.

    An empty text gives None.

    Raises:
        InvalidValueError: the text has another form.
    """
    if not text:
        return None
    if text.startswith(_UNIX_PREFIX):
        socket_path = path(text.removeprefix(_UNIX_PREFIX))
        if len(socket_path.encode()) > _UNIX_PATH_BYTES_MAX:
            expected = f"at most {_UNIX_PATH_BYTES_MAX} bytes"
            raise invalid(socket_path, expected, what="path of a Unix socket")
        return StreamEndpoint(path=socket_path)
    scheme, host, port = _split(text, "tcp://host:port, tls://host:port or unix:PATH")
    if scheme.lower() not in ("tcp", "tls"):
        raise invalid(scheme, "tcp, tls or unix", what="scheme")
    return StreamEndpoint(host=host or None, port=port, is_tls=scheme.lower() == "tls")


def is_loopback(endpoint: HttpEndpoint | StreamEndpoint) -> bool:
    """Return True if only this machine can reach the endpoint."""
    if isinstance(endpoint, StreamEndpoint) and endpoint.path is not None:
        return True
    return is_loopback_host(endpoint.host or "")


def is_loopback_host(host: str) -> bool:
    """Return True if a host name, or an IP address without a zone, is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # address.is_loopback would depend on Python's version for ::ffff:127.0.0.1.
    return address in _LOOPBACK_IPV4 or address == _LOOPBACK_IPV6


def parse_listeners(text: str) -> tuple[Listener, ...]:
    """Return the listeners of a comma list: upper-case names, distinct names and ports.

    Port 0 may repeat, and an IPv4 and an IPv6 address may share a port.

    Raises:
        InvalidValueError: an entry is malformed, or a name or port repeats.

    Source: Kafka 4.3 SocketServerConfigs, AbstractKafkaConfig.listenerListToEndPoints. Unlike
    Kafka, brackets are allowed only around IPv6 addresses, and the port is checked.
    """
    listeners = parse_advertised_listeners(text)
    by_port = defaultdict(list)
    for listener in listeners:
        by_port[listener.port].append(listener)
    for port, sharing in by_port.items():
        if port != 0 and len(sharing) > 1 and not _is_dual_stack(sharing):
            names = " and ".join(listener.name for listener in sharing)
            raise InvalidValueError(f"{names} have the same port {port}")
    return listeners


def parse_advertised_listeners(text: str) -> tuple[Listener, ...]:
    """Return the listeners of a comma list: upper-case, distinct names. Ports may repeat."""
    listeners: dict[str, Listener] = {}
    for entry in some_words(text):
        name, host, port = _split(entry, "NAME://host:port")
        listener = Listener(name=name.upper(), host=host or None, port=port)
        if listener.name in listeners:
            raise InvalidValueError(f"the name {listener.name} occurs twice")
        listeners[listener.name] = listener
    return tuple(listeners.values())


def parse_http_endpoint(text: str) -> HttpEndpoint:
    """Return the endpoint of ``http://host:port`` or ``https://host:port``.

    Without a host, it covers every interface.

    Raises:
        InvalidValueError: the text is malformed.
    """
    scheme, host, port = _split(text.removesuffix("/"), "http://host:port or https://host:port")
    if scheme.lower() not in ("http", "https"):
        raise invalid(scheme, "http or https", what="scheme")
    return HttpEndpoint(host=host or None, port=port, is_tls=scheme.lower() == "https")


def parse_optional_http_endpoint(text: str) -> HttpEndpoint | None:
    """Return the endpoint as ``parse_http_endpoint`` does, or None for an empty text."""
    return parse_http_endpoint(text) if text else None


def loopback_error(endpoint: HttpEndpoint | StreamEndpoint) -> str:
    """Return the error text for an endpoint that other machines can reach."""
    host = endpoint.host or "every interface"
    return f"{host} is not a loopback address (127.0.0.0/8, ::1, localhost)"


def _split(text: str, shape: str) -> tuple[str, str, int]:
    """Return name, host without brackets, and port."""
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise invalid(text, f"{shape} (an IPv6 host in brackets)", what="address")
    port = int(address["port"])
    if not 0 <= port <= _PORT_MAX:
        raise invalid(text, f"a port from 0 to {_PORT_MAX}", what="address")
    if address["ipv6"] is None:
        return address["name"], address["host"], port
    if _ip_version(address["ipv6"]) != 6:
        raise invalid(text, "an IPv6 address in the brackets", what="address")
    return address["name"], address["ipv6"], port


def _is_dual_stack(listeners: Iterable[Listener]) -> bool:
    versions = [_ip_version(listener.host) for listener in listeners]
    return len(versions) == 2 and set(versions) == {4, 6}


def _ip_version(host: str | None) -> int | None:
    try:
        return ip_address(host or "").version
    except ValueError:
        return None
