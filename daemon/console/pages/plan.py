"""The page *What if*: what candidate ACLs would change, and which recorded requests with them.

**Invariant:** nothing in force changes. A visitor needs the right to read ACLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from authorizerd.acl.audit_mask import Masking
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.past import PastChange
from authorizerd.acl.snapshot import STATES_FREED_PER_STEP, AclSnapshot
from authorizerd.acl.steps import free
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.steps import finish_in_turns
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.audit.lines import Recorded, parse_lines
from authorizerd.daemon.audit.setup import STANDARD_STREAMS
from authorizerd.daemon.console.candidates import (
    Traffic,
    apply_candidates,
    compare,
    find_present,
    judge,
    read_candidates,
)
from authorizerd.daemon.console.denials import read_last_lines
from authorizerd.daemon.console.visits import View, Visit
from authorizerd.daemon.decisions.acl_surface import check_may_list
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.threads import run_in_thread
from authorizerd.protocol.decisions.acl_answers import make_acl_answer
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.http.rights import ACLS

ROWS_MAX: Final = 200
"""The maximum number of changes, and of requests, that the page lists."""
_MODES: Final = ("add", "replace")


class PlanPage:
    """Show the form; after it is sent, the changes and their effect on recorded requests.

    Args:
        decider: it decides by the ACLs that the candidates are compared with.
    """

    def __init__(self, configuration: Configuration, decider: StandardAuthorizer) -> None:
        self._decider: Final = decider
        target = configuration.audit_log
        self._audit_file: Final = (
            None if target is None or target in STANDARD_STREAMS else Path(target)
        )
        masks = (
            configuration.audit_mask_principal,
            configuration.audit_mask_host,
            configuration.audit_mask_resource,
        )
        self._is_masked: Final = any(each is not Masking.NONE for each in masks)
        self._turn: Final = trio.Lock()

    async def __call__(self, visit: Visit) -> View:
        """Show the page."""
        fields = visit.parameters
        context: dict[str, Any] = {"changes": None, "traffic": None, "failure": "", "note": ""}
        status = 200
        try:
            visit.caller.check(ACLS)  # before the visitor fills in the form
            if visit.request.method == "POST":
                check_names(dict(fields), ("mode", "acls"))
                async with self._turn:  # one at a time, so the memory of one is enough
                    context |= await self._compare(visit.caller, fields)
        except QueryError as error:
            context["failure"], status = str(error), 400
        except ForbiddenError as error:
            context["failure"], status = str(error), 403
        except NotReadyError as error:
            context["failure"], status = str(error), 503
        return View(
            template="plan.html.jinja",
            context={**context, "mode": fields.get("mode", "add"), "acls": fields.get("acls", "")},
            status=status,
        )

    async def _compare(self, caller: Caller, fields: Mapping[str, str]) -> dict[str, Any]:
        mode = fields.get("mode", "")
        if mode not in _MODES:
            raise QueryError(f"mode: expected one of {', '.join(_MODES)}")
        state = check_may_list(self._decider, caller)
        snapshot = state.snapshot
        assert snapshot is not None, "checked"
        candidates = await run_in_thread(read_candidates, fields.get("acls", ""))
        principals = frozenset(acl.principal for acl in candidates)
        present = await finish_in_turns(find_present(snapshot, principals))
        try:
            changes, undone = await run_in_thread(
                lambda: compare(present, candidates, replaces=mode == "replace")
            )
        finally:
            await finish_in_turns(free(present))
        try:
            traffic, note = await self._judge(snapshot, state.settings, undone)
        finally:
            await finish_in_turns(free(undone))
        self._decider.check_current(state)
        return {
            "changes": [("add", make_acl_answer(acl)) for acl in changes.created[:ROWS_MAX]]
            + [("remove", make_acl_answer(acl)) for acl in changes.deleted[:ROWS_MAX]],
            "created": len(changes.created),
            "deleted": len(changes.deleted),
            "principals": len(principals),
            "offset": snapshot.offset,
            "traffic": traffic,
            "note": note,
            "rows_max": ROWS_MAX,
        }

    async def _judge(
        self, snapshot: AclSnapshot, settings: AuthorizerSettings, undone: list[PastChange]
    ) -> tuple[Traffic | None, str]:
        """Return the effect on recorded requests, or why it is not known."""
        if self._audit_file is None:
            return None, "Set authorizerd.audit.log to a file to see the effect on requests here."
        if self._is_masked:
            return None, "The audit log masks names, so its requests cannot be judged."
        try:
            lines = await run_in_thread(_read_requests, self._audit_file)
        except OSError as error:
            reason = error.strerror or "it is not a file"
            return None, f"The audit log's file cannot be read: {reason}."
        states: list[AclSnapshot] = []
        try:
            after = await finish_in_turns(apply_candidates(snapshot, undone, states))
            states.append(after)
            traffic = await finish_in_turns(judge(snapshot, after, settings, lines))
            del after
        finally:
            await finish_in_turns(free(states, STATES_FREED_PER_STEP))
            await finish_in_turns(free(lines))
        return traffic, ""


def _read_requests(path: Path) -> list[Recorded | None]:
    return list(parse_lines(read_last_lines(path)))
