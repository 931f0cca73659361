"""Check whether the web console is on, and who can log in to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from authorizerd.cli.doctor.finding import Finding, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import HttpEndpoint

_CHECK: Final = "console"
_KEY: Final = "authorizerd.console"


def examine_console(configuration: Configuration) -> Iterator[Finding]:
    """Yield one finding: that the console is off, or its address and visitors.

    The configuration itself rejects an admin port that other machines can reach without TLS or
    without credentials, and ``examine_access`` reads the tokens file.
    """
    if not configuration.console:
        yield ok(_CHECK, f"off: {_KEY}=true turns it on")
        return
    tokens_file, has_client_auth = configuration.tokens_file, configuration.has_client_auth
    address = _find_address(configuration.admin_http)
    visitors = []
    if tokens_file is not None:
        visitors.append(f"callers with a token of {tokens_file}")
    if has_client_auth and configuration.admin_http.is_tls:
        visitors.append("clients with a certificate")
    if visitors:
        yield ok(_CHECK, f"{address}: {' and '.join(visitors)} can log in")
    elif has_client_auth:
        advice = "set authorizerd.tokens.file, or let authorizerd.admin.http begin with https://"
        text = "nobody can log in: this address takes no certificates, and there are no tokens"
        yield warning(_CHECK, f"{address}: {text}", advice)
    else:
        yield ok(_CHECK, f"{address}: everyone on this machine, without a log-in")


def _find_address(admin: HttpEndpoint) -> str:
    scheme, protection = ("https", "TLS") if admin.is_tls else ("http", "loopback only, no TLS")
    host = f"[{admin.host}]" if ":" in (admin.host or "") else admin.host or "*"
    return f"{scheme}://{host}:{admin.port or 'any port'}/console/ ({protection})"
