"""An authorizer, a tokens file and a recording audit log, for tests of the decision ports."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.opa import OpaHandler
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.rights import DECISIONS, Needs
from tests.support.acls import acl, snapshot_of
from tests.support.answers import answer_of
from tests.support.audit import RecordingAuditLog

SURFACE = "AuthZEN"
PROXY, ROOT, OTHER = "User:a proxy", "User:root", "User:other"


def entry(name: str, principal: str, secret: str = "secret") -> str:
    """Return a line of a tokens file."""
    return f"{name} {sha256(secret.encode()).hexdigest()} {principal}\n"


TOKENS = entry("proxy", PROXY) + entry("root", ROOT) + entry("other", OTHER)


def settings_of(**principals: str) -> Configuration:
    """Return settings in which these principals have rights, and ROOT is the super user."""
    lines = ["node.id=1", "log.dirs=/log", f"super.users={ROOT}"]
    lines += [f"authorizerd.callers.{right}={value}" for right, value in principals.items()]
    return parse("\n".join(lines), source="test")


def may(caller: Caller, needs: Needs, about: str | None = None) -> bool:
    """Return True if the caller may ask what ``needs`` stands for."""
    try:
        caller.check(needs, about)
    except ForbiddenError:
        return False
    return True


def cluster_action(principal: str, *, host: str = "*", deny: bool = False) -> Acl:
    return acl(principal, "CLUSTER_ACTION", host=host, deny=deny, cluster=True)


def authzen_handler(place: Place) -> AuthZenHandler:
    return AuthZenHandler(
        place.authorizer, Vocabulary({"user": "User"}, {"topic": 2}), place.callers
    )


async def opa_answer(place: Place, request: Request) -> Response:
    return await answer_of(OpaHandler(place.authorizer, place.callers)(request))


class Place:
    """The parts behind a decision port.

    Args:
        folder: a folder for a tokens file; without it every caller is trusted.
    """

    def __init__(self, folder: Path | None, *acls: Acl, loaded: bool = True) -> None:
        self.snapshot: Published[AclSnapshot | None] = Published(
            snapshot_of(*acls) if loaded else None
        )
        self.audit_log = RecordingAuditLog()
        self.auditor = Auditor(self.audit_log, level=AuditLevel.DEBUG, now_s=lambda: 0.0)
        self.authorizer = StandardAuthorizer(self.snapshot, auditor=self.auditor)
        self.authorizer.configure({"super.users": ROOT})
        self.file = None if folder is None else folder / "tokens"
        if self.file is not None:
            self.file.write_text(TOKENS)
        self.callers = Callers(None if self.file is None else str(self.file))
        self.callers.prepare_reload()()
        self.grant()

    def grant(self, **principals: str) -> None:
        """Apply settings in which only these principals have rights: ``ask="User:a;User:b"``."""
        self.callers.reconfigure(settings_of(**principals))

    def rewrite_tokens(self, text: str) -> None:
        assert self.file is not None
        self.file.write_text(text)

    def caller(self, name: str) -> Caller:
        caller = self.callers.identify(f"{name}.secret")
        assert caller is not None
        return caller

    def may_ask_about(self, name: str, principal: str) -> bool:
        return may(self.caller(name), DECISIONS, principal)
