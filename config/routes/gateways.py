"""How each kind of gateway sends the method and the target of a client's request.

**Invariant:** the kind is configured, never guessed: headers of another kind come from the client.

Source: nginx ngx_http_auth_request_module; Traefik ForwardAuth; Caddy forward_auth; Envoy's HTTP
ext_authz.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from authorizerd.config.routes.errors import RefusedRequestError

X_REAL_IP: Final = "X-Real-IP"
X_FORWARDED_FOR: Final = "X-Forwarded-For"
_OVERRIDES: Final = ("x-http-method-override", "x-http-method", "x-method-override")


class Gateway(NamedTuple):
    """A kind of gateway.

    Attributes:
        method: the header with the method; empty if the request itself has it.
        target: the header with the target; empty if it is the path below the daemon's own.
        host: the header that has the client's address, unless the file names another.
    """

    name: str
    method: str
    target: str
    host: str

    @property
    def is_below(self) -> bool:
        """True if the target is the path below the daemon's own."""
        return not self.target


GATEWAYS: Final = {
    each.name: each
    for each in (
        Gateway("nginx", "X-Original-Method", "X-Original-URI", X_REAL_IP),
        Gateway("traefik", "X-Forwarded-Method", "X-Forwarded-Uri", X_FORWARDED_FOR),
        Gateway("caddy", "X-Forwarded-Method", "X-Forwarded-Uri", X_FORWARDED_FOR),
        Gateway("envoy", "", "", X_REAL_IP),
    )
}
DEFAULT_GATEWAY: Final = "nginx"


def _spell(name: str) -> list[str]:
    """Return a header's name with each mix of ``-`` and ``_``, which some servers equate."""
    first, *others = name.split("-")
    spelled = [first]
    for word in others:
        spelled = [f"{before}{mark}{word}" for before in spelled for mark in "-_"]
    return spelled


OVERRIDES: Final = frozenset(spelled.encode() for name in _OVERRIDES for spelled in _spell(name))
"""The headers by which some servers replace the method of a request, in lower case."""


def check_overrides(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request with a header that replaces its method."""
    if not OVERRIDES.isdisjoint(headers):
        name = next(each for each in headers if each in OVERRIDES).decode()
        raise RefusedRequestError(f"the header {name} would replace the method")


def read_single(headers: Mapping[bytes, bytes], name: str, key: bytes) -> str:
    """Return the ASCII text of a header that every request of the gateway has.

    Args:
        key: the name in lower case.
    """
    value = headers.get(key)
    if not value:
        raise RefusedRequestError(
            f"the gateway sent no header {name}: see 'gateway' in the file of"
            " authorizerd.routes.file"
        )
    if not value.isascii():
        raise RefusedRequestError(f"the header {name} has bytes other than ASCII")
    return value.decode()
