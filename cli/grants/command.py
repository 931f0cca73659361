"""``authorizerd acls grant``: make, extend and end grants, or make their ACLs permanent.

Exit codes: 0 done; 1 a fault; 2 invalid arguments; 4 the present ACLs do not permit it, and nothing
was changed.

**Invariant:** a grant is made only of an ACL that the listing right before does not have, in one
request with its note. A server that compares offsets proves that nobody else made it in between.
Other brokers cannot prove it: they accept an ACL that exists, without an error or a record.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio

from authorizerd.acl.grants.model import Grant
from authorizerd.acl.grants.reading import (
    describe_access,
    describe_end,
    format_utc,
    read_grants,
)
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import NoteError
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change import apply_server
from authorizerd.cli.change.apply_server import AclServer, Answered, KafkaAclServer, Unanswered
from authorizerd.cli.change.execution import Ending, Execution
from authorizerd.cli.errors import CommandError
from authorizerd.cli.grants.changes import (
    Change,
    GrantRequest,
    Listed,
    RefusedError,
    find_change,
    find_new,
    is_reached,
)
from authorizerd.cli.grants.listing import name_grant
from authorizerd.cli.output import print_document, print_lines, warn
from authorizerd.management.plan import document, state
from authorizerd.management.plan.changes import AclChanges, AclRequest, arrange

EXIT_REFUSED: Final = 4
SETTLE_SECONDS: Final = 3.0
"""How long a request of somebody who begins and ends grants may be on its way."""
_ATTEMPTS_MAX: Final = 5
_LOOK: Final = "\nSee what is granted with 'authorizerd acls grants', and run the command again."
_UNDONE: Final = "What was made of it is deleted again."
_LEFT: Final = (
    "What was made of it could not be deleted again: these ACLs may be there without an end. "
    "Delete them with 'authorizerd acls --remove'."
)
_RESULTS: Final = {
    "make": "granted",
    "extend": "extended",
    "permanent": "permanent",
    "revoke": "revoked",
}


def run_grant(request: GrantRequest) -> int:
    """Carry out the request, print what was done, and return the exit code.

    Raises:
        CommandError: it failed; the text says what is not known.
    """

    async def use(reader: BrokerReader) -> Sequence[Grant]:
        author = request.by or reader.caller
        if author is None and request.action in ("make", "extend"):
            request.refuse(
                "--by: expected the author, because it is not known who this command logs in as"
            )
        return await Granting(request, KafkaAclServer(reader), author or "").run()

    assert request.bootstrap_server is not None, "the flags are checked"
    try:
        grants = run_on_brokers(request.bootstrap_server, request.command_config, use)
    except RefusedError as error:
        for line in str(error).splitlines():
            warn(line)
        warn("nothing was changed")
        return EXIT_REFUSED
    if request.json:
        named = [name_grant(grant) for grant in grants]
        print_document({"result": _RESULTS[request.action], "grants": named})
    else:
        print_lines(_describe(request, grants))
    return 0


def _describe(request: GrantRequest, grants: Sequence[Grant]) -> Iterator[str]:
    for grant in grants:
        begin = f" from {format_utc(grant.begin_ms)}" if grant.is_waiting else ""
        end = f"{begin} {describe_end(grant)}" if request.end_ms is not None else ""
        yield f"{_RESULTS[request.action]}: {describe_access(grant.acl)}{end}"


class Granting:
    """One request to one server."""

    def __init__(
        self,
        request: GrantRequest,
        server: AclServer,
        author: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._request: Final = request
        self._server: Final = server
        self._author: Final = author
        self._clock: Final = clock
        self._new: Final = {} if request.action != "make" else self._make_grants()

    def _make_grants(self) -> dict[Acl, Grant]:
        request, now_ms = self._request, int(self._clock() * 1000)
        assert request.end_ms is not None, "the flags are checked"
        return {
            acl: Grant(
                id=secrets.token_hex(8),
                acl=acl,
                begin_ms=now_ms if request.begin_ms is None else request.begin_ms,
                end_ms=request.end_ms,
                author=self._author,
                reason=request.reason or "",
                is_waiting=request.begin_ms is not None,
            )
            for acl in request.acls
        }

    async def run(self) -> Sequence[Grant]:
        """Carry out the request, again if others change ACLs meanwhile; return the grants.

        Raises:
            CommandError: it failed.
            RefusedError: nothing was changed.
        """
        grants: list[Grant] = []
        for attempt in range(_ATTEMPTS_MAX):
            listed = await self._server.list_acls()
            found = self._look_up(listed)
            if attempt and all(
                is_reached(found[grant.acl], self._request, grant) for grant in grants
            ):
                return grants
            try:
                changes = self._find_changes(found)
            except RefusedError as error:
                if not attempt:
                    raise
                raise CommandError(f"{error}\nOthers changed ACLs meanwhile.{_LOOK}") from None
            grants = [change.grant for change in changes]
            if await self._carry_out(listed, changes):
                if all(change.is_last for change in changes):
                    return grants
                if self._request.action == "permanent":
                    await trio.sleep(SETTLE_SECONDS)
        raise CommandError(f"others changed ACLs {_ATTEMPTS_MAX} times meanwhile{_LOOK}")

    def _look_up(self, listed: apply_server.Listed) -> dict[Acl, Listed]:
        held = frozenset(listed.acls.values())
        grants: dict[Acl, list[Grant]] = {acl: [] for acl in self._request.acls}
        for grant in read_grants(held).grants:
            grants.get(grant.acl, []).append(grant)
        return {acl: Listed(theirs, acl in held) for acl, theirs in grants.items()}

    def _find_changes(self, found: dict[Acl, Listed]) -> list[Change]:
        now_ms = int(self._clock() * 1000)
        changes: list[Change] = []
        reasons: list[str] = []
        for acl, listed in found.items():
            try:
                changes.append(
                    find_new(listed, self._new[acl])
                    if self._request.action == "make"
                    else find_change(listed, self._request, self._author, now_ms)
                )
            except RefusedError as error:
                reasons.append(f"{describe_access(acl)}: {error}")
            except NoteError as error:
                self._request.refuse(str(error))
        if reasons:
            raise RefusedError("\n".join(reasons))
        return changes

    async def _carry_out(self, listed: apply_server.Listed, changes: Sequence[Change]) -> bool:
        """Change the state ``listed``. Return False if others have changed ACLs meanwhile."""
        held = frozenset(listed.acls.values())
        arranged = arrange(
            {acl for change in changes for acl in change.create if acl not in held},
            {acl for change in changes for acl in change.delete},
        )
        server = _ListedServer(self._server, listed)
        execution = Execution(_make_plan(listed, arranged), server, report=lambda _: None)
        await execution.run()
        progress = execution.progress
        if progress.ending is not Ending.FAILED:
            return progress.ending in (Ending.APPLIED, Ending.NOTHING_TO_DO)
        reason = "; ".join(progress.reasons)
        if server.is_partial and self._request.action == "make":
            # The server refused some of it, perhaps a note: then its ACL would have no end.
            undo = AclRequest("delete_allow", arranged.created)
            answer = await self._server.send(undo, None)
            is_undone = isinstance(answer, Answered) and not answer.errors
            raise CommandError(f"{reason}\n{_UNDONE if is_undone else _LEFT}{_LOOK}")
        doubt = "\nIt is not known whether it was carried out." if progress.in_doubt else ""
        raise CommandError(f"{reason}{doubt}{_LOOK}")


def _make_plan(listed: apply_server.Listed, changes: AclChanges) -> document.Plan:
    count = len(listed.acls)
    return document.Plan(
        made_for=document.PlanSource(
            place="brokers", name="", offset=listed.offset, acls=count, digest=listed.digest
        ),
        leads_to=document.State(
            count + len(changes.created) - len(changes.deleted),
            state.change_digest(listed.digest, changes),
        ),
        settings=document.PlanSettings(None, None),
        manages="everything",
        warnings=(),
        checks=(),
        steps=document.name_steps(changes),
    )


class _ListedServer:
    """A server whose next listing is known already.

    Attributes:
        is_partial: True once the server has refused a part of a request.
    """

    def __init__(self, server: AclServer, listed: apply_server.Listed) -> None:
        self._listed: apply_server.Listed | None = listed
        self._server = server
        self.is_partial = False

    async def list_acls(self) -> apply_server.Listed:
        listed, self._listed = self._listed, None
        return await self._server.list_acls() if listed is None else listed

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answered | Unanswered:
        answer = await self._server.send(request, expected_offset)
        if isinstance(answer, Answered):
            self.is_partial |= 0 < len(answer.errors) < len(request.acls)
        return answer
