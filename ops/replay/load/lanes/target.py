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

    @property
    def host(self) -> str:
        """An HTTP target as in the header Host."""
        return self.text.removeprefix(_TLS_PREFIXES[HTTP])


def parse_target(plan: LoadPlan) -> Target:
    """Return the target of a plan. Files are not read.

    Raises:
        LoadError: it is not a target of the plan's surface, or a TLS option would have no effect.
    """
    text, surface = plan.target, plan.surface
    prefix = _TLS_PREFIXES[surface]
    host, _, port = text.removeprefix(prefix).rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX
    if surface == STREAM and text.startswith(_UNIX_PREFIX) and len(text) > len(_UNIX_PREFIX):
        target = Target(text, text.removeprefix(_UNIX_PREFIX))
    elif host and "/" not in host and is_port and not text.startswith(_UNIX_PREFIX):
        # An IPv6 address is written in brackets.
        target = Target(text, (host.strip("[]"), int(port)), is_tls=text.startswith(prefix))
    else:
        raise LoadError(
            f"target {text!r}: expected {_EXPECTED[surface]}, since the surface is {surface}"
        )
    given = [name for name in TLS_FILES if getattr(plan, name) is not None]
    if given and not target.is_tls:
        raise LoadError(
            f"{given[0]}: has no effect, because the target {text!r} has no TLS: "
            f"expected {prefix}HOST:PORT"
        )
    if plan.key is not None and plan.cert is None:
        raise LoadError("key: has no effect without cert")
    return target


def new_context(plan: LoadPlan) -> ssl.SSLContext | None:
    """Return the TLS context for a plan's connections, or None if its target has no TLS.

    Raises:
        LoadError: a file cannot be read or used; the text names it.
    """
    if not parse_target(plan).is_tls:
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
