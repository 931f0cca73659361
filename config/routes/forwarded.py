"""Read a gateway's request: who asks for which questions, and from where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.gateways import Gateway, check_overrides, read_single
from authorizerd.config.routes.identity import Identity
from authorizerd.config.routes.table import Match, RouteTable


class Forwarded(NamedTuple):
    """A client's request, as the gateway sent it."""

    principal: str
    host: str
    match: Match


class RequestReader:
    """Reads the requests of one kind of gateway."""

    def __init__(self, gateway: Gateway, identity: Identity, table: RouteTable) -> None:
        self.gateway: Final = gateway
        self.identity: Final = identity
        self.table: Final = table
        self._method: Final = gateway.method.lower().encode()
        self._target: Final = gateway.target.lower().encode()
        names = (gateway.method, gateway.target, identity.principal_header, identity.host_header)
        self._single: Final = {name.lower().encode(): name for name in names if name}

    def read(
        self,
        method: str,
        target: str,
        headers: Mapping[bytes, bytes],
        repeated: Iterable[bytes] = (),
    ) -> Forwarded:
        """Return the client's request.

        Args:
            method: of the gateway's own request.
            target: what follows the daemon's own path, with the query.
            headers: by their names in lower case.
            repeated: the names of those that occur several times.

        Raises:
            RefusedRequestError: the answer is 401 or 403.
        """
        for name in repeated:
            if name in self._single:
                raise RefusedRequestError(f"the header {self._single[name]} is repeated")
        identity, gateway = self.identity, self.gateway
        principal = identity.read_principal(headers)
        check_overrides(headers)
        host = identity.read_host(headers)
        if gateway.target:
            method = read_single(headers, gateway.method, self._method)
            target = read_single(headers, gateway.target, self._target)
        return Forwarded(principal, host, self.table.find(method, target))
