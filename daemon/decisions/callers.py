"""The callers of the decision ports, and whom they may ask about.

**Invariant:** if there is a tokens file, or TLS asks for client certificates, every caller needs a
token or a certificate. Otherwise every caller is trusted, and the port is bound to loopback or a
Unix socket. A caller with credentials may ask about itself. For anything else, its principal needs
a right, which the current ``authorizerd.callers.*`` or ``super.users`` grant, and ACLs never do. A
reload takes effect at once, even on open connections.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.config.configuration import Configuration
from authorizerd.config.tokens import Token, Tokens, parse_tokens
from authorizerd.daemon.decisions.token_file import read_tokens_text
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.protocol.http.messages import Request
from authorizerd.protocol.http.rights import Needs, Right

SHOWN_PRINCIPAL_CHARACTERS: Final = 200
"""Maximum length of a principal in an error: a batch repeats the error for each question."""

_logger: Final = logging.getLogger("authorizerd")


class Caller(ABC):
    """A caller at the other end of a connection."""

    known_by: str
    """How the daemon knows the caller's principal, for the audit."""
    principal: str | None
    """The caller's principal, or None if callers need no credentials."""

    @abstractmethod
    def check(self, needs: Needs, about: str | None = None) -> None:
        """Check that the caller has the right ``needs``.

        Args:
            about: the principal that the question is about; None if it is about everyone.

        Raises:
            ForbiddenError: it may not. The text names the key to set.
        """


class Trusted(Caller):
    """A caller on a port that requires no credentials."""

    known_by = "trusted"
    principal = None

    def check(self, needs: Needs, about: str | None = None) -> None:
        if not needs.trusts:
            raise ForbiddenError(
                f"this port trusts its callers to ask, but not to {needs.to}: set"
                " authorizerd.tokens.file, or ask for client certificates, and list the caller's"
                f" principal in {Right.READ.key}"
            )


class Callers:
    """The callers of all decision ports, known by their tokens or certificates.

    No token is valid until the file's text has been applied, and nobody has a right until
    ``reconfigure`` is called.

    Args:
        tokens_file: the path of ``authorizerd.tokens.file``, or None if it is not set.
        has_client_auth: True if TLS asks clients for certificates.
    """

    def __init__(self, tokens_file: str | None, *, has_client_auth: bool = False) -> None:
        self._tokens_file: Final = tokens_file
        self._has_client_auth = has_client_auth
        self._trusted = Trusted() if tokens_file is None and not has_client_auth else None
        self.tokens = Tokens({})
        self.version = 0
        """Changes whenever tokens or rights change, which invalidates earlier checks."""
        self.holders: Mapping[Right, frozenset[str]] = dict.fromkeys(Right, frozenset())

    def reconfigure(self, settings: Configuration) -> None:
        """Apply new settings at once, even on open connections."""
        holders = {right: settings.callers[right] | settings.super_users for right in Right}
        self.version += holders != self.holders
        self.holders = holders

    @property
    def trusts_all(self) -> bool:
        """True if callers need no credentials."""
        return self._trusted is not None

    def may_be_anyone(self, request: Request) -> bool:
        """Return True if callers need credentials, and no certificate identifies this one."""
        return not self.trusts_all and request.principal is None

    def accepted_schemes(self) -> frozenset[str]:
        """Return the security schemes of ``openapi.json`` that identify a caller, if any."""
        tokens = () if self._tokens_file is None else ("token", "tokenInQuery")
        return frozenset((*tokens, "certificate") if self._has_client_auth else tokens)

    def require_credentials(self) -> None:
        """Require a token or a certificate of every caller from now on.

        A surface that keeps a caller for several requests must check ``trusts_all`` again.
        """
        self._trusted = None
        self._has_client_auth = True
        self.version += 1

    @property
    def text(self) -> str | None:
        """The text of the tokens file in force, or None if there is no file."""
        return None if self._tokens_file is None else self.tokens.text

    def identify(self, token: str | bytes | None, *, certified: str | None = None) -> Caller | None:
        """Return the caller with this ``token`` or certificate, or None if it is unknown.

        A caller with a wrong token is unknown even if it has a certificate.

        Args:
            certified: the principal of the client's certificate, or None.
        """
        if self._trusted is not None:
            return self._trusted
        if token is None:
            return None if certified is None else _Known(self, certified)
        if isinstance(token, str):
            # A lone surrogate must count as an unknown token, not raise an error.
            token = token.encode("utf-8", "surrogatepass")
        found = self.tokens.find(token)
        return None if found is None else _Known(self, found.principal, found)

    def prepare_reload(self) -> Callable[[], None]:
        """Read the file again, and return a function that applies it. Reading blocks.

        That function invalidates the tokens that were removed from the file, even on open
        connections. It warns of a file without tokens.

        Raises:
            ConfigurationError, StartError: the file is unusable.
        """
        path = self._tokens_file
        if path is None:
            return lambda: None
        apply = self.parse(read_tokens_text(path))

        def apply_and_warn() -> None:
            apply()
            if not self.tokens:
                _logger.warning("%s: it has no token, so every token is refused", path)

        return apply_and_warn

    def parse(self, text: str | None) -> Callable[[], None]:
        """Parse a tokens file's text, and return a function that applies it.

        Args:
            text: None if there is no tokens file.
        """
        if self._tokens_file is None or text is None:
            return lambda: None
        tokens = parse_tokens(text, source=self._tokens_file)

        def apply() -> None:
            self.version += tokens.text != self.tokens.text
            self.tokens = tokens

        return apply


def new_callers(configuration: Configuration) -> Callers:
    """Return the callers that the configuration admits."""
    callers = Callers(configuration.tokens_file, has_client_auth=configuration.has_client_auth)
    callers.reconfigure(configuration)
    return callers


class _Known(Caller):
    """A caller whose principal is known, from its certificate or its token.

    With a token, it may ask as long as the file lists the token. A reload may remove the token
    while the connection stays open.
    """

    __slots__ = ("_callers", "_token", "known_by", "principal")
    principal: str

    def __init__(self, callers: Callers, principal: str, token: Token | None = None) -> None:
        self._callers = callers
        self._token = token
        self.known_by = "certificate" if token is None else "token"
        self.principal = principal

    def check(self, needs: Needs, about: str | None = None) -> None:
        callers, token, principal = self._callers, self._token, self.principal
        if token is not None and token not in callers.tokens:
            raise ForbiddenError("the token is no longer in authorizerd.tokens.file")
        right = needs.itself if about == principal else needs.others
        if right is not None and principal not in callers.holders[right]:
            shown = escape_unprintable(principal[:SHOWN_PRINCIPAL_CHARACTERS])
            raise ForbiddenError(f"{shown} may not {needs.to}: {right.key} does not list it")
