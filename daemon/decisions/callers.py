"""Who asks on a decision port, and about whom.

Law: where there is a tokens file nobody asks without a token. A caller may ask about itself, and
about others with CLUSTER_ACTION on the cluster, which a broker needs to forward for others, judged
by the same state as the question. Without such a file whoever reaches the port is trusted: it is
on loopback or a Unix socket then.

Source: KIP-590 (Envelope).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import CLUSTER_NAME, Operation, ResourceType
from authorizerd.actors.decider import Authority, Decider
from authorizerd.config.tokens import Token, Tokens, parse_tokens
from authorizerd.daemon.decisions.token_file import read_tokens_text
from authorizerd.daemon.errors import ForbiddenError


class Asker(Protocol):
    """Whoever is at the other end."""

    def may_ask_about(self, principal: str, authority: Authority) -> bool:
        """Say whether it may be told what ``principal`` may do, by the state of ``authority``.

        Raises:
            NotReadyError: that is not known before the ACLs are loaded.
        """


class Trusted(Asker):
    """Anybody, where no credentials are asked for."""

    def may_ask_about(self, principal: str, authority: Authority) -> bool:
        return True


class Askers:
    """The callers of all decision ports.

    Args:
        tokens_file: the path of ``authorizerd.tokens.file``, None where there is none.

    No token is known until the file's text is in force.
    """

    def __init__(self, authorizer: Decider, tokens_file: str | None) -> None:
        self._authorizer: Final = authorizer
        self._tokens_file: Final = tokens_file
        self._trusted: Final = Trusted() if tokens_file is None else None
        self.tokens = Tokens({})

    @property
    def text(self) -> str | None:
        """The tokens file's text that is in force, None where there is no file."""
        return None if self._tokens_file is None else self.tokens.text

    def identify(self, token: str | bytes | None, surface: str) -> Asker | None:
        """Return who asks with ``token``, None for nobody that is known.

        Args:
            surface: what the audit calls the request with which it asks.
        """
        if self._trusted is not None:
            return self._trusted
        if token is None:
            return None
        if isinstance(token, str):
            token = token.encode("utf-8", "surrogatepass")
        found = self.tokens.find(token)
        return None if found is None else _Known(self, self._authorizer, found, surface)

    def read_anew(self) -> Callable[[], None]:
        """Read the file again, and return what puts it in force; until then nothing changes.

        It blocks. A token that the file no longer has is worth nothing from then on, on
        connections that are open too.

        Raises:
            ConfigurationError, StartError: the file cannot be used.
        """
        path = self._tokens_file
        return self.parse(None if path is None else read_tokens_text(path))

    def parse(self, text: str | None) -> Callable[[], None]:
        """Parse a tokens file's text, and return what puts it in force; as ``read_anew``.

        Args:
            text: None where there is no tokens file.
        """
        if self._tokens_file is None or text is None:
            return lambda: None
        tokens = parse_tokens(text, source=self._tokens_file)

        def put_in_force() -> None:
            self.tokens = tokens

        return put_in_force


class _Known(Asker):
    """Who holds a token, for as long as it stands in the file."""

    __slots__ = ("_askers", "_authorizer", "_surface", "_token")

    def __init__(self, askers: Askers, authorizer: Decider, token: Token, surface: str) -> None:
        self._askers: Final = askers
        self._authorizer: Final = authorizer
        self._token: Final = token
        self._surface: Final = surface

    def may_ask_about(self, principal: str, authority: Authority) -> bool:
        """As ``Asker.may_ask_about``; its own address is not looked at, so counts as unknown."""
        if self._token not in self._askers.tokens:
            return False
        if principal == self._token.principal:
            return True
        try:
            judge = self._authorizer.judge(authority, self._surface)
            return judge(
                self._token.principal,
                None,
                Operation.CLUSTER_ACTION,
                ResourceType.CLUSTER,
                CLUSTER_NAME,
            )
        except InvalidQuestionError:
            return False


def check_may_ask(asker: Asker, principal: str, authority: Authority) -> None:
    """Raise where ``asker`` may not be told what ``principal`` may do.

    Raises:
        ForbiddenError: it may not.
        NotReadyError: as ``Asker.may_ask_about``.
    """
    if not asker.may_ask_about(principal, authority):
        raise ForbiddenError("CLUSTER_ACTION on the cluster is needed to ask about others")
