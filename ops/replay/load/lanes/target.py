"""The target that a lane connects to, and its TLS.

**Invariant:** a target with TLS is never reached without it, and its certificate and host name are
always checked.
"""

from __future__ import annotations

import ssl
from typing import Final

import msgspec

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.questions import HTTP, STREAM
from authorizerd.replay.plans import LoadPlan

TLS_FILES: Final = ("cafile", "cert", "key")
"""The fields of a plan that are paths of TLS files."""
_UNIX_PREFIX: Final = "unix:"
_TLS_PREFIXES: Final = {STREAM: "tls://", HTTP: "https://"}
"""The scheme of a target with TLS, by surface."""
_EXPECTED: Final = {
    STREAM: "HOST:PORT, tls://HOST:PORT or unix:PATH",
    HTTP: "HOST:PORT or https://HOST:PORT",
}
_PORT_MAX: Final = 65535
_UNKNOWN_CA: Final = (18, 19, 20, 21)
"""OpenSSL's X509_V_ERR codes for certificates that no trusted CA has signed."""


class Target(msgspec.Struct, frozen=True):
    """An address: host and port, or the path of a Unix socket. ``text`` is as the user wrote it."""

    text: str
    address: tuple[str, int] | str
    is_tls: bool = False


def parse_target(target: str, surface: str = STREAM) -> Target:
    """Return the target that the text names.

    Raises:
        LoadError: the text is not a target, or not one of this surface.
    """
    prefix = _TLS_PREFIXES[surface]
    host, _, port = target.removeprefix(prefix).rpartition(":")
    if surface == STREAM and target.startswith(_UNIX_PREFIX) and len(target) > len(_UNIX_PREFIX):
        return Target(target, target.removeprefix(_UNIX_PREFIX))
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX
    if not host or "/" in host or not is_port or target.startswith(_UNIX_PREFIX):
        raise LoadError(
            f"target {target!r}: expected {_EXPECTED[surface]}, since the surface is {surface}"
        )
    # An IPv6 address is written in brackets.
    return Target(target, (host.strip("[]"), int(port)), is_tls=target.startswith(prefix))


def host_of(target: str) -> str:
    """Return an HTTP target without its scheme, as in the header Host."""
    return target.removeprefix(_TLS_PREFIXES[HTTP])


def check_tls(plan: LoadPlan) -> None:
    """Check the TLS options without reading their files.

    Raises:
        LoadError: an option would have no effect.
    """
    given = [name for name in TLS_FILES if getattr(plan, name) is not None]
    if given and not parse_target(plan.target, plan.surface).is_tls:
        raise LoadError(
            f"{given[0]}: has no effect, because the target {plan.target!r} has no TLS: "
            f"expected {_TLS_PREFIXES[plan.surface]}HOST:PORT"
        )
    if plan.key is not None and plan.cert is None:
        raise LoadError("key: has no effect without cert")


def new_context(plan: LoadPlan) -> ssl.SSLContext | None:
    """Return the TLS context for a plan's connections, or None if its target has no TLS.

    Raises:
        LoadError: a file cannot be read or used; the text names it.
    """
    if not parse_target(plan.target, plan.surface).is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=plan.cafile)
    except OSError as error:
        wanted = "expected certificates in PEM" if isinstance(error, ssl.SSLError) else None
        raise LoadError(f"cafile {plan.cafile}: {wanted or error.strerror}") from None
    if plan.cert is not None:
        files = plan.cert if plan.key is None else f"{plan.cert}, key {plan.key}"
        try:
            # Without a password, OpenSSL would ask the terminal for one.
            context.load_cert_chain(plan.cert, plan.key, password="")
        except ssl.SSLError:
            raise LoadError(
                f"cert {files}: expected a certificate chain and its key in PEM, without a password"
            ) from None
        except OSError as error:
            raise LoadError(f"cert {files}: {error.strerror}") from None
    return context


def tls_reason(error: ssl.SSLError) -> str:
    """Return the reason why a TLS connection failed, and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = ": name its CA with --cafile" if error.verify_code in _UNKNOWN_CA else ""
        return f"its certificate is rejected: {error.verify_message}{remedy}"
    reason = error.reason or str(error)
    if reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS: use HOST:PORT"
    _, is_alert, alert = reason.partition("ALERT_")
    if alert in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"):
        return "it refuses the handshake: if it requires a client certificate, use --cert and --key"
    words = (alert or reason).lower().replace("_", " ")
    return f"it refuses the client certificate: {words}" if is_alert else f"TLS failed: {words}"
