"""``GET /v1/acls``: the ACLs at one offset, from which a watch can begin.

**Invariant:** a listing shows exactly the ACLs of one state that its filter matches, each once, or
the client can tell that it is incomplete. Nothing is sent once the caller has lost the right.
"""

from __future__ import annotations

from typing import Final

from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.queries.acl_surface import AclSurface, check_may_list
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.listings import new_check, stream
from authorizerd.protocol.decisions.acl_filters import parse_query, read_as_of, read_filter
from authorizerd.protocol.http.messages import JSON, LINES, Request, Response
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.http.streamed import StreamedResponse
from authorizerd.protocol.queries import ListingQuestion

ACLS_PATH: Final = "/v1/acls"
SURFACE: Final = "ListAcls"


class AclListHandler(AclSurface):
    """Answer listings, as lines of JSON."""

    def __init__(self, authorizer: StandardAuthorizer, callers: Callers, queries: Queries) -> None:
        super().__init__(SURFACE, authorizer, callers)
        self._queries: Final = queries

    async def _answer(self, request: Request, caller: Caller) -> Response | StreamedResponse:
        parameters = parse_query(request.query)
        wanted, as_of = read_filter(parameters), read_as_of(parameters)
        state = check_may_list(self._authorizer, caller)
        asked = ListingQuestion(wanted, state.settings, as_of, request.view)
        check = new_check(self._authorizer, state, lambda: caller.check(ACLS))
        offset = state.offset
        del state  # otherwise it would be kept alive for too long
        found = await self._queries.open(asked, caller=caller.principal, offset=offset)
        try:
            check()
        except BaseException:
            found.close()
            raise
        if found.answer.bodies:
            found.close()
            return Response(status=200, body=found.answer.bodies[0], content_type=JSON)
        return stream(found, check, LINES)
