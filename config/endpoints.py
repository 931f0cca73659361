"""Addresses to listen on: Kafka's ``NAME://host:port`` and our own ``http://host:port``.

Law: an HTTP endpoint is a loopback address. Its callers are trusted to ask without showing who
they are, so any other host is refused here and never reaches a socket.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, ip_address

from config.errors import InvalidValueError
from config.values import SecurityProtocol, shown, some_words

NONROUTABLE_HOST = "0.0.0.0"  # noqa: S104 - compared with, never bound

_ADDRESS = re.compile(
    r"(?P<name>.+)://(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<host>[0-9A-Za-z%._-]*)):(?P<port>-?[0-9]{1,10})"
)
_PORT_MAX = 65535
_LOOPBACK_IPV4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_IPV6 = IPv6Address("::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An entry of ``listeners``; host None is every interface, port 0 any free port."""

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
    """A loopback address that serves HTTP; an IPv6 host stands without brackets."""

    host: str
    port: int


def parse_listeners(text: str) -> tuple[Listener, ...]:
    """Return the listeners of a comma list, names upper-cased, names and ports distinct.

    Port 0 may repeat, and an IPv4 and an IPv6 address may share a port.

    Raises:  InvalidValueError.
    Source:  Kafka 4.3 SocketServerConfigs, AbstractKafkaConfig.listenerListToEndPoints; unlike
             Kafka, brackets stand around IPv6 addresses only and a port is checked.
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
    """Return the listeners of a comma list, names upper-cased and distinct; ports may repeat."""
    listeners: dict[str, Listener] = {}
    for entry in some_words(text):
        name, host, port = _split(entry, "NAME://host:port")
        listener = Listener(name=name.upper(), host=host or None, port=port)
        if listener.name in listeners:
            raise InvalidValueError(f"{listener.name} is named twice")
        listeners[listener.name] = listener
    return tuple(listeners.values())


def parse_http_endpoint(text: str) -> HttpEndpoint:
    """Return the endpoint of ``http://host:port``; its host is a loopback address.

    Raises:  InvalidValueError.
    """
    scheme, host, port = _split(text.removesuffix("/"), "http://host:port")
    if scheme.lower() != "http":
        raise InvalidValueError(f"the scheme {scheme} is not served, only http is")
    if not _is_loopback(host):
        raise InvalidValueError(
            f"{host or 'every interface'} is not a loopback address (127.0.0.0/8, ::1, localhost):"
            " callers cannot be authenticated there yet"
        )
    return HttpEndpoint(host=host, port=port)


def _split(text: str, shape: str) -> tuple[str, str, int]:
    """Return name, host without brackets, and port."""
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise InvalidValueError(f"{shown(text)} is not {shape} (an IPv6 host stands in brackets)")
    port = int(address["port"])
    if not 0 <= port <= _PORT_MAX:
        raise InvalidValueError(f"{text}: port {port} is not from 0 to {_PORT_MAX}")
    if address["ipv6"] is None:
        return address["name"], address["host"], port
    if _ip_version(address["ipv6"]) != 6:
        raise InvalidValueError(f"{text}: {address['ipv6']} is not an IPv6 address")
    return address["name"], address["ipv6"], port


def _is_dual_stack(listeners: Iterable[Listener]) -> bool:
    versions = [_ip_version(listener.host) for listener in listeners]
    return len(versions) == 2 and set(versions) == {4, 6}


def _ip_version(host: str | None) -> int | None:
    try:
        return ip_address(host or "").version
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # Not address.is_loopback: whether that takes ::ffff:127.0.0.1 depends on Python's version.
    return address in _LOOPBACK_IPV4 or address == _LOOPBACK_IPV6
