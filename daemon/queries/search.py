"""AuthZEN's searches on the decision port: for subjects, resources and actions.

**Invariant:** all pages of a search show one state. If the ACLs, the settings or the topics have
changed since the previous page, the next page is an error. A new log offset alone does not matter.

A caller may search its own rights. To search the rights of others, or for subjects, it needs the
right to search. A search is counted once, and leaves one line in the audit log.

Source: OpenID AuthZEN Authorization API 1.0, section 8 (Search APIs).
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Operation, Question
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionCounts, DecisionState
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.listings import new_check, stream
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    UnknownNameError,
    Vocabulary,
    as_of_context,
)
from authorizerd.protocol.decisions.discovery import (
    SEARCH_ACTION_PATH,
    SEARCH_RESOURCE_PATH,
    SEARCH_SUBJECT_PATH,
)
from authorizerd.protocol.decisions.searches import (
    ActionSearch,
    PageRequest,
    Query,
    ResourceSearch,
    Search,
    SearchContext,
    SubjectSearch,
    build_query,
    decode_search,
    encode_search_answer,
)
from authorizerd.protocol.http.messages import (
    JSON,
    LINES,
    Request,
    Response,
)
from authorizerd.protocol.http.rights import OWN_SEARCHES, PAST, SEARCHES_OF_ALL, Needs
from authorizerd.protocol.http.streamed import AnyResponse
from authorizerd.protocol.queries import SearchQuestion

SURFACE: Final = "Search"
_KINDS: Final[dict[str, type[Search]]] = {
    SEARCH_SUBJECT_PATH: SubjectSearch,
    SEARCH_RESOURCE_PATH: ResourceSearch,
    SEARCH_ACTION_PATH: ActionSearch,
}
SEARCHES: Final[dict[str, Needs]] = {
    SEARCH_SUBJECT_PATH: SEARCHES_OF_ALL,
    SEARCH_RESOURCE_PATH: OWN_SEARCHES,
    SEARCH_ACTION_PATH: OWN_SEARCHES,
}
"""What each search requires of its caller."""
_AUDITED_AS: Final = {
    SEARCH_SUBJECT_PATH: "SubjectSearch",
    SEARCH_RESOURCE_PATH: "ResourceSearch",
    SEARCH_ACTION_PATH: "ActionSearch",
}
"""The name of the request in the audit log."""
_NO_PAGE: Final = PageRequest()


class SearchHandler(HttpSurface):
    """Answer searches.

    Args:
        authorizer: decides by the ACLs that are searched.
    """

    def __init__(
        self,
        authorizer: StandardAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries,
    ) -> None:
        super().__init__(SURFACE, authorizer, callers, AuthZenError, queries)
        self._searched: Final = authorizer
        self._vocabulary: Final = vocabulary

    async def _answer(self, request: Request, requester: PortRequester) -> AnyResponse:
        state = self._searched.current_state()
        try:
            search = decode_search(request.body, _KINDS[request.path])
            query = build_query(search, self._vocabulary)
            as_of = as_of_context(search.context)
        except UnknownNameError as error:
            self._counts.invalid += 1
            if request.view is not None:
                raise AuthZenError(str(error)) from error
            nothing = SearchContext(offset=state.offset, reason=str(error))
            return _respond(encode_search_answer((), nothing, ""))
        except AuthZenError:
            self._counts.invalid += 1
            raise
        needs = SEARCHES[request.path]
        self._check(requester, needs, query.principal)
        page, caller = search.page or _NO_PAGE, requester.principal
        asked = SearchQuestion(
            query,
            caller,
            page.limit,
            page.token or "",
            caller == query.principal and caller not in state.settings.super_users,
            state.settings,
            as_of,
            request.view,
        )
        counts = self._counts if as_of is None else self._past_counts
        found = await self._open(asked, requester, state, counts)
        try:
            if as_of is not None:  # counted, but not audited
                self._count_past(found.answer.allowed[0])
            else:
                self._report(_AUDITED_AS[request.path], query, state, found.answer.count, requester)
        except BaseException:
            found.close()
            raise
        if found.answer.bodies:
            found.close()
            return _respond(found.answer.bodies[0])

        def check_right() -> None:
            requester.caller.check(needs, query.principal)
            if as_of is not None:
                requester.caller.check(PAST)

        return stream(found, new_check(self._authorizer, state, check_right), LINES)

    def _report(
        self,
        name: str,
        query: Query,
        state: DecisionState,
        count: int,
        requester: PortRequester,
    ) -> None:
        """Count and audit a search; see docs/audit.md for its line."""
        if count:
            self._counts.allowed += 1
        else:
            self._counts.denied += 1
        rule = SURFACE
        operation: int = Operation.ANY
        # Without a resource name there is no decision, so the line must not name an operation:
        # replay judges lines that have all fields of a question.
        if query.resource_name is None:
            rule = f"{SURFACE}({Operation.read(query.operation or operation).name})"
        elif query.operation is not None:
            operation = query.operation
        question = Question(
            WILDCARD_PRINCIPAL if query.principal is None else query.principal,
            query.host,
            operation,
            query.resource_type,
            WILDCARD if query.resource_name is None else query.resource_name,
        )
        context = DecisionContext(name, DecisionCounts(), count, requester=requester)
        self._searched.report(state, question, Decision(True, NamedRule(rule)), context)


def _respond(body: bytes) -> Response:
    return Response(status=200, body=body, content_type=JSON)
