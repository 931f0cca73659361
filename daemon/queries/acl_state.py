"""``GET /v1/state``: what decisions depend on besides the ACLs, and which ACLs these are.

A mirror asks regularly. The answer proves that its copy is the state that decides here now.
"""

from __future__ import annotations

import math
from typing import Final

from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.queries.acl_surface import NO_STORE, AclSurface, check_may_list
from authorizerd.protocol.decisions.acl_feed import StateAnswer, encode_state_answer
from authorizerd.protocol.decisions.acl_filters import check_names, parse_query
from authorizerd.protocol.http.messages import JSON, Request, Response

STATE_PATH: Final = "/v1/state"
SURFACE: Final = "State"


class AclStateHandler(AclSurface):
    """Describe the state that decides now. Only refusals are audited: the answer has no ACL."""

    audits_access = False

    def __init__(self, authorizer: StandardAuthorizer, callers: Callers) -> None:
        super().__init__(SURFACE, authorizer, callers)

    async def _answer(self, request: Request, caller: Caller) -> Response:
        check_names(parse_query(request.query), ())
        state = check_may_list(self._authorizer, caller)
        snapshot, settings = state.snapshot, state.settings
        assert snapshot is not None, "the authorizer is ready"
        seconds = self._authorizer.seconds_left(state)
        answer = StateAnswer(
            offset=snapshot.offset,
            count=len(snapshot.acls),
            version=snapshot.version.hex(),
            releases=snapshot.rules.releases,
            super_users=tuple(sorted(settings.super_users)),
            allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
            valid_ms=None if seconds == math.inf else int(seconds * 1000),
        )
        return Response(200, encode_state_answer(answer), JSON, headers=(NO_STORE,))
