"""Limits of one endpoint's connections: how many, how many per address, and for how long.

Source: Kafka 4.3 ConnectionQuotas, for ``max.connections`` and ``max.connections.per.ip``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import is_loopback_host

UNLIMITED: Final = 2**31 - 1
_ADDRESSES_CACHED: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of one endpoint; times are in seconds.

    Of ``connections_max``, ``reserved`` are for super users; others may use them until they
    authenticate. ``login_timeout_s`` runs from the accept until a connection is established,
    ``request_timeout_s`` from a request's first byte to its last. ``idle_timeout_s`` limits the
    time without a request, and the time in which the peer does not read its answer. ``overrides``
    are the limits of single addresses. ``own_per_address_max`` is the endpoint's own limit per
    address; it applies if it is lower than the setting. ``is_http`` determines which setting gives
    ``request_timeout_s``.
    """

    connections_max: int
    login_timeout_s: float
    request_timeout_s: float
    idle_timeout_s: float
    drain_timeout_s: float
    reserved: int = 0
    connections_per_address_max: int = UNLIMITED
    own_per_address_max: int = UNLIMITED
    overrides: Mapping[str, int] = dataclasses.field(default_factory=dict)
    is_http: bool = False

    @classmethod
    def of_settings(
        cls,
        settings: Configuration,
        connections_max: int,
        *,
        reserved: int = 0,
        own_per_address_max: int = UNLIMITED,
        is_http: bool = False,
    ) -> Self:
        """Return the limits that ``settings`` give an endpoint, with this ``connections_max``."""
        request_timeout_ms = (
            settings.http_header_timeout_ms if is_http else settings.connections_max_idle_ms
        )
        return cls(
            connections_max=connections_max,
            reserved=reserved,
            is_http=is_http,
            login_timeout_s=settings.login_timeout_ms / 1000,
            request_timeout_s=request_timeout_ms / 1000,
            idle_timeout_s=settings.connections_max_idle_ms / 1000,
            drain_timeout_s=settings.http_drain_timeout_ms / 1000,
            connections_per_address_max=min(settings.max_connections_per_ip, own_per_address_max),
            own_per_address_max=own_per_address_max,
            overrides=settings.max_connections_per_ip_overrides,
        )

    @property
    def replaces_own(self) -> bool:
        """True if a newcomer beyond the limit per address replaces one from the same network.

        At ``max.connections.per.ip`` it is refused, as in Kafka.
        """
        return self.own_per_address_max < UNLIMITED

    @property
    def unreserved_max(self) -> int:
        return max(min(1, self.connections_max), self.connections_max - self.reserved)

    def of_address(self, address: str) -> int:
        """Return how many connections the source of ``address`` may have.

        All processes of this machine share the loopback address, so only an override limits it.
        """
        override = self.overrides.get(address)
        if override is not None:
            return override
        return UNLIMITED if _is_loopback(address) else self.connections_per_address_max

    def source_of(self, address: str | None) -> str | None:
        """Return what counts connections of ``address``: its network, or itself if overridden.

        Kafka counts single IPv6 addresses, but one host may have any number of these.
        """
        return address if address in self.overrides else network_of(address)

    def with_settings(self, settings: Configuration, connections_max: int) -> Self:
        """Return the same endpoint's limits under new settings."""
        return self.of_settings(
            settings,
            connections_max,
            reserved=self.reserved,
            own_per_address_max=self.own_per_address_max,
            is_http=self.is_http,
        )


@lru_cache(maxsize=_ADDRESSES_CACHED)
def network_of(address: str | None) -> str | None:
    """Return the network whose addresses may all be one host's: IPv4 as is, IPv6 by /64.

    Args:
        address: in the form that Kafka compares: an IPv6 address has all eight groups.
    """
    if address is None or ":" not in address:
        return address
    text, _, zone = address.partition("%")
    return ":".join([*text.split(":")[:4], zone])


@lru_cache(maxsize=_ADDRESSES_CACHED)
def _is_loopback(address: str) -> bool:
    return is_loopback_host(address.partition("%")[0])
