"""The page *What if*: what candidate ACLs would change, and which recorded requests that would
affect.

**Invariant:** this never changes anything in force. A visitor needs the right to read ACLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from authorizerd.acl.audit.mask import Masking
from authorizerd.acl.errors import NotReadyError
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.audit.setup import STANDARD_STREAMS
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.errors import BusyError, ForbiddenError
from authorizerd.daemon.queries.acl_surface import check_may_list
from authorizerd.daemon.queries.candidates import SHOWN_MAX, Plan
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.listings import new_check
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.queries import PlanQuestion

_MODES: Final = ("add", "replace")


class PlanPage:
    """Show the form; after it is sent, the changes and their effect on recorded requests.

    Args:
        authorizer: decides by the ACLs that the candidates are compared with.
        queries: carries out the comparison.
    """

    def __init__(
        self, configuration: Configuration, authorizer: StandardAuthorizer, queries: Queries
    ) -> None:
        self._authorizer: Final = authorizer
        self._queries: Final = queries
        masks = (
            configuration.audit_mask_principal,
            configuration.audit_mask_host,
            configuration.audit_mask_resource,
        )
        self._audit_file = configuration.audit_log
        self._note = ""
        if self._audit_file is None or self._audit_file in STANDARD_STREAMS:
            self._audit_file = None
            self._note = "Set authorizerd.audit.log to a file to see the effect on requests here."
        elif any(mask is not Masking.NONE for mask in masks):
            self._audit_file = None
            self._note = "The audit log masks names, so its requests cannot be judged."

    async def __call__(self, visit: Visit) -> Shown:
        """Show the page."""
        fields = visit.parameters
        plan, failure, status = None, "", 200
        try:
            visit.caller.check(ACLS)  # before the visitor fills in the form
            if visit.request.method == "POST":
                check_names(dict(fields), ("mode", "acls"))
                plan = await self._compare(visit.caller, fields)
        except QueryError as error:
            failure, status = str(error), 400
        except ForbiddenError as error:
            failure, status = str(error), 403
        except (NotReadyError, BusyError) as error:
            failure, status = str(error), 503
        return Shown(
            template="plan.html.jinja",
            context={
                "plan": plan,
                "failure": failure,
                "note": self._note,
                "rows_max": SHOWN_MAX,
                "mode": fields.get("mode", "add"),
                "acls": fields.get("acls", ""),
            },
            status=status,
        )

    async def _compare(self, caller: Caller, fields: Mapping[str, str]) -> Plan:
        mode = fields.get("mode", "")
        if mode not in _MODES:
            raise QueryError(f"mode: expected one of {', '.join(_MODES)}")
        state = check_may_list(self._authorizer, caller)
        check = new_check(self._authorizer, state, lambda: caller.check(ACLS))
        asked = PlanQuestion(
            fields.get("acls", ""), mode == "replace", self._audit_file, state.settings
        )
        offset = state.offset
        del state  # otherwise it would be kept alive for too long
        answer = await self._queries.ask(asked, caller=caller.principal, offset=offset)
        check()
        return msgspec.json.decode(answer.bodies[0], type=Plan)
