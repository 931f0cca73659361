"""An authorizer, a tokens file and a recording audit log, for tests of the decision ports."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.published import Published
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.opa import OpaHandler
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.http.messages import Request, Response
from tests.support.acls import acl, snapshot_of
from tests.support.audit import RecordingAuditLog
from tests.support.authorizers import read_only_authorizer

SURFACE = "AuthZEN"
PROXY, ROOT, OTHER = "User:a proxy", "User:root", "User:other"


def entry(name: str, principal: str, secret: str = "secret") -> str:
    """Return a line of a tokens file."""
    return f"{name} {sha256(secret.encode()).hexdigest()} {principal}\n"


TOKENS = entry("proxy", PROXY) + entry("root", ROOT) + entry("other", OTHER)


def cluster_action(principal: str, *, host: str = "*", deny: bool = False) -> Acl:
    return acl(principal, "CLUSTER_ACTION", host=host, deny=deny, cluster=True)


def authzen_handler(place: Place) -> AuthZenHandler:
    return AuthZenHandler(
        place.authorizer, Vocabulary({"user": "User"}, {"topic": 2}), place.callers
    )


async def opa_answer(place: Place, request: Request) -> Response:
    return await OpaHandler(place.authorizer, place.callers)(request)


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
        self.authorizer = read_only_authorizer(self.snapshot, self.auditor)
        self.authorizer.configure({"super.users": ROOT})
        self.file = None if folder is None else folder / "tokens"
        if self.file is not None:
            self.file.write_text(TOKENS)
        self.callers = Callers(self.authorizer, None if self.file is None else str(self.file))
        self.callers.prepare_reload()()

    def rewrite_tokens(self, text: str) -> None:
        assert self.file is not None
        self.file.write_text(text)

    def caller(self, name: str) -> Caller:
        caller = self.callers.identify(f"{name}.secret", SURFACE)
        assert caller is not None
        return caller

    def may_ask_about(self, name: str, principal: str) -> bool:
        return self.caller(name).may_ask_about(principal, self.authorizer.current_state())
