"""The callers of the decision ports, and whom they may ask about.

**Invariant:** if there is a tokens file, or TLS asks for client certificates, every caller needs a
token or a certificate. Otherwise every caller is trusted, and the port is bound to loopback or a
Unix socket. A caller with credentials may ask about itself. To ask about others, it needs
CLUSTER_ACTION on the cluster, as a broker does to forward requests. The same state of the ACLs
decides the question and this right. To list or watch ACLs, a caller needs credentials, and DESCRIBE
on the cluster.

Source: KIP-590 (Envelope).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import CLUSTER_NAME, Operation, ResourceType
from authorizerd.actors.decider import Decider, DecisionState
from authorizerd.config.configuration import Configuration
from authorizerd.config.tls import ClientAuth
from authorizerd.config.tokens import Token, Tokens, parse_tokens
from authorizerd.daemon.decisions.token_file import read_tokens_text
from authorizerd.protocol.http.messages import Request
from authorizerd.protocol.http.openapi import accepted_schemes


class Caller(ABC):
    """A caller at the other end of a connection."""

    @property
    @abstractmethod
    def principal(self) -> str | None:
        """The caller's principal, or None if callers need no credentials."""

    @abstractmethod
    def may_ask_about(self, principal: str, state: DecisionState) -> bool:
        """Return True if, by ``state``, the caller may learn the rights of ``principal``.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
        """

    @abstractmethod
    def may_ask_about_others(self, state: DecisionState) -> bool:
        """Return True if, by ``state``, the caller may learn the rights of every principal.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
        """

    @abstractmethod
    def may_list_acls(self, state: DecisionState) -> bool:
        """Return True if, by ``state``, the caller may see ACLs: DESCRIBE on the cluster.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
        """


class Trusted(Caller):
    """A caller on a port that requires no credentials."""

    @property
    def principal(self) -> None:
        return None

    def may_ask_about(self, principal: str, state: DecisionState) -> bool:
        return True

    def may_ask_about_others(self, state: DecisionState) -> bool:
        return True

    def may_list_acls(self, state: DecisionState) -> bool:
        """Return False: it is trusted to ask, but nothing proves who it is."""
        return False


class Callers:
    """The callers of all decision ports, known by their tokens or certificates.

    No token is valid until the file's text has been applied.

    Args:
        tokens_file: the path of ``authorizerd.tokens.file``, or None if it is not set.
        has_client_auth: True if TLS asks clients for certificates.
    """

    def __init__(
        self, decider: Decider, tokens_file: str | None, *, has_client_auth: bool = False
    ) -> None:
        self._decider: Final = decider
        self._tokens_file: Final = tokens_file
        self._has_client_auth = has_client_auth
        self._trusted = Trusted() if tokens_file is None and not has_client_auth else None
        self.tokens = Tokens({})

    @property
    def trusts_all(self) -> bool:
        """True if callers need no credentials."""
        return self._trusted is not None

    def may_be_anyone(self, request: Request) -> bool:
        """Return True if callers need credentials, and no certificate identifies this one."""
        return not self.trusts_all and request.principal is None

    def accepted_schemes(self) -> frozenset[str]:
        """Return what identifies a caller, as names of ``SCHEMES``; empty if all are trusted."""
        return accepted_schemes(
            has_tokens=self._tokens_file is not None, has_client_auth=self._has_client_auth
        )

    def require_credentials(self) -> None:
        """Require a token or a certificate of every caller from now on.

        A surface that keeps a caller longer than for a request must check ``trusts_all`` again.
        """
        self._trusted = None
        self._has_client_auth = True

    @property
    def text(self) -> str | None:
        """The text of the tokens file in force, or None if there is no file."""
        return None if self._tokens_file is None else self.tokens.text

    def identify(
        self, token: str | bytes | None, surface: str, *, certified: str | None = None
    ) -> Caller | None:
        """Return the caller with this ``token`` or certificate, or None if it is unknown.

        A caller with a wrong token is unknown even if it has a certificate.

        Args:
            surface: the name of the request in the audit log.
            certified: the principal of the client's certificate, or None.
        """
        if self._trusted is not None:
            return self._trusted
        if token is None:
            return None if certified is None else _Known(self._decider, certified, surface)
        if isinstance(token, str):
            # A lone surrogate must give an unknown token, not an error.
            token = token.encode("utf-8", "surrogatepass")
        found = self.tokens.find(token)
        return None if found is None else _TokenHolder(self, self._decider, found, surface)

    def prepare_reload(self) -> Callable[[], None]:
        """Read the file again, and return a function that applies it. Reading blocks.

        That function invalidates the tokens that have been removed from the file, on open
        connections too.

        Raises:
            ConfigurationError, StartError: the file is unusable.
        """
        path = self._tokens_file
        return self.parse(None if path is None else read_tokens_text(path))

    def parse(self, text: str | None) -> Callable[[], None]:
        """Parse a tokens file's text, and return a function that applies it.

        Args:
            text: None if there is no tokens file.
        """
        if self._tokens_file is None or text is None:
            return lambda: None
        tokens = parse_tokens(text, source=self._tokens_file)

        def apply() -> None:
            self.tokens = tokens

        return apply


def new_callers(configuration: Configuration, decider: Decider) -> Callers:
    """Return the callers that the configuration admits."""
    tls = configuration.http_tls
    has_client_auth = tls is not None and tls.client_auth is not ClientAuth.NONE
    return Callers(decider, configuration.tokens_file, has_client_auth=has_client_auth)


class _Known(Caller):
    """A caller whose principal is known, from its certificate or its token."""

    __slots__ = ("_decider", "_principal", "_surface")

    def __init__(self, decider: Decider, principal: str, surface: str) -> None:
        self._decider: Final = decider
        self._principal: Final = principal
        self._surface: Final = surface

    @property
    def principal(self) -> str:
        return self._principal

    def may_ask_about(self, principal: str, state: DecisionState) -> bool:
        return principal == self._principal or self.may_ask_about_others(state)

    def may_ask_about_others(self, state: DecisionState) -> bool:
        """See ``Caller``. The caller's own address is not used, so its host counts as unknown."""
        return self._may(Operation.CLUSTER_ACTION, state)

    def may_list_acls(self, state: DecisionState) -> bool:
        """See ``Caller``. The host counts as unknown here, too."""
        return self._may(Operation.DESCRIBE, state)

    def _may(self, operation: Operation, state: DecisionState) -> bool:
        """Return True if the caller may do this to the cluster."""
        try:
            judge = self._decider.judge(state, self._surface)
            return judge(self._principal, None, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        except InvalidQuestionError:
            return False


class _TokenHolder(_Known):
    """A caller with a token. It may ask for as long as the file lists the token."""

    __slots__ = ("_callers", "_token")

    def __init__(self, callers: Callers, decider: Decider, token: Token, surface: str) -> None:
        super().__init__(decider, token.principal, surface)
        self._callers: Final = callers
        self._token: Final = token

    def may_ask_about(self, principal: str, state: DecisionState) -> bool:
        return self._is_valid and super().may_ask_about(principal, state)

    def may_ask_about_others(self, state: DecisionState) -> bool:
        return self._is_valid and super().may_ask_about_others(state)

    def may_list_acls(self, state: DecisionState) -> bool:
        return self._is_valid and super().may_list_acls(state)

    @property
    def _is_valid(self) -> bool:
        """False once a reload has removed the token, although its connection stays open."""
        return self._token in self._callers.tokens
