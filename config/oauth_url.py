"""The address of an issuer's document: its keys, or its endpoint for tokens.

**Invariant:** a document comes over verified TLS, from this machine, or from a file. A person
who could change the issuer's keys on the way could log in as anyone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from authorizerd.config.endpoints import is_loopback_host
from authorizerd.config.values import invalid, path

_SHAPE: Final = "https://HOST[:PORT]/PATH or file:///PATH"
_SECRETS: Final = re.compile(r"(?<=//)[^/]*(?=@)|(?<=\?).*", re.DOTALL)
"""A user with a password, and a query."""
_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUrl:
    """A file's ``path``, or a ``host``, a ``port`` and the ``target`` of a request.

    ``text`` is for messages: it has no query, which may contain a secret.
    """

    text: str
    path: str | None = None
    host: str = ""
    port: int = 0
    target: str = ""
    is_tls: bool = False


def parse_document_url(text: str) -> DocumentUrl:
    """Return the address in a URL. HTTP without TLS is allowed to this machine only."""
    text_shown = _SECRETS.sub("…", text)
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
    except ValueError:
        raise invalid(text_shown, _SHAPE, what="URL") from None
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise invalid(text_shown, f"{_SHAPE}, without blanks", what="URL")
    if scheme == "file" and host in ("", "localhost") and not (parts.query or parts.fragment):
        location = path(unquote(parts.path))
        return DocumentUrl(text=f"file://{location}", path=location)
    if scheme not in _PORTS or not host or parts.fragment or "@" in parts.netloc or port == 0:
        raise invalid(text_shown, _SHAPE, what="URL")
    shown = f"{scheme}://{parts.netloc}{parts.path}"
    if scheme == "http" and not is_loopback_host(host):
        raise invalid(shown, "https, since anyone on the network could change the answer of http")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return DocumentUrl(
        text=shown,
        host=host,
        port=port or _PORTS[scheme],
        target=target,
        is_tls=scheme == "https",
    )
