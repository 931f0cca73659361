"""AuthZEN's searches on the decision port: for subjects, resources and actions.

**Invariant:** all pages of a search show one state. If the ACLs, the settings or the topics have
changed since the page before, the next page is an error. A new log offset alone changes nothing.

A caller may search its own rights. To search those of others, and for subjects, it needs the right
to search. A search is counted once, and leaves one line in the audit log.

Source: OpenID AuthZEN Authorization API 1.0, section 8 (Search APIs).
"""

from __future__ import annotations

import weakref
from hashlib import blake2b
from typing import Any, Final

import msgspec
from immutables import Map

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.decision import AuthorizerSettings, Decision, NamedRule
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError, SearchLimitError
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Operation, Question, ResourceType
from authorizerd.acl.state_version import combine_ids
from authorizerd.acl.steps import Steps
from authorizerd.actors.decider import DecisionContext, DecisionCounts, DecisionState
from authorizerd.actors.published import View
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.long_work import LongWork
from authorizerd.daemon.decisions.past import Past
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import BusyError
from authorizerd.image.cluster import ClusterImage
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
from authorizerd.protocol.decisions.page_tokens import (
    STATE_BYTES,
    PageToken,
    PageTokens,
    check_state,
)
from authorizerd.protocol.decisions.past_answers import make_as_of
from authorizerd.protocol.decisions.search_pages import SearchPage, State, find_page
from authorizerd.protocol.decisions.searches import (
    PAGE_LIMIT_MAX,
    ActionSearch,
    Found,
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
from authorizerd.protocol.http.messages import JSON, Request, Response, Route, bearer_token
from authorizerd.protocol.http.rights import OWN_SEARCHES, SEARCHES_OF_ALL, Needs

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
        decider: it decides by the ACLs that are searched.
        image: its topics are names that a search for resources examines.
        tokens: the same in all workers.
    """

    def __init__(
        self,
        decider: StandardDecider,
        vocabulary: Vocabulary,
        callers: Callers,
        image: View[ClusterImage],
        work: LongWork,
        tokens: PageTokens,
        past: Past | None = None,
    ) -> None:
        super().__init__(SURFACE, decider, callers, AuthZenError, past)
        self._searched: Final = decider
        self._vocabulary: Final = vocabulary
        self._image: Final = image
        self._work: Final = work
        self._tokens: Final = tokens
        self._acls: Final = _Identified()
        self._topics: Final = _Identified()

    async def __call__(self, request: Request) -> Response:
        """Answer one request, in turns."""
        return await self._respond(request, bearer_token(request))

    def route(self, request: Request) -> Route | None:
        """Return None: no search is answered at once."""
        return None

    async def _answer(self, request: Request, requester: PortRequester) -> Response:
        # The snapshot and the topics are of one log offset: nothing is awaited in between.
        state, image = self._searched.current_state(), self._image.newest
        try:
            search = decode_search(request.body, _KINDS[request.path])
            query = build_query(search, self._vocabulary)
            as_of = as_of_context(search.context)
        except UnknownNameError as error:
            self._counts.invalid += 1
            return _respond((), SearchContext(offset=state.offset, reason=str(error)))
        except AuthZenError:
            self._counts.invalid += 1
            raise
        self._check(requester, SEARCHES[request.path], query.principal)
        try:
            snapshot = self._searched.check_ready(state)
        except NotReadyError:
            self._counts.not_ready += 1
            raise
        asked = _Asked(request.path, requester.principal, search.page or _NO_PAGE, query)
        if as_of is not None:
            return await self._search_past(requester, as_of, asked, image)
        searched = State(snapshot, state.settings, image.topics, asked.own_only(state.settings))
        try:
            page, token = await self._work.run(self._find(asked, searched, image), asked.caller)
        except (AuthZenError, InvalidQuestionError, SearchLimitError):
            self._counts.invalid += 1
            raise
        except BusyError:
            self._counts.not_ready += 1
            raise
        self._searched.check_current(state)
        self._report(asked, state, len(page.results), requester)
        return _respond(page.results, page.context, token)

    async def _search_past(
        self, requester: PortRequester, as_of: AsOf, asked: _Asked, image: ClusterImage
    ) -> Response:
        """Search the ACLs of an earlier moment. It is counted, but not audited."""
        async with self._past_at(as_of, requester) as then:
            snapshot = self._searched.check_ready(then.state)
            searched = State(
                snapshot,
                then.state.settings,
                image.topics,
                asked.own_only(then.state.settings),
                then.now.snapshot,
            )
            try:
                page, token = await self._work.run(self._find(asked, searched, image), asked.caller)
            except (AuthZenError, InvalidQuestionError, SearchLimitError):
                self._past_counts.invalid += 1
                raise
        self._searched.check_current(then.state)
        self._count_past(bool(page.results))
        context = msgspec.structs.replace(page.context, as_of=make_as_of(then.moment))
        return _respond(page.results, context, token)

    def _find(
        self, asked: _Asked, searched: State, image: ClusterImage
    ) -> Steps[tuple[SearchPage, str]]:
        """Return, in steps, the page that the request asks for, and the token of the next one.

        Raises:
            AuthZenError: the token is not one of this search, or has expired.
            InvalidQuestionError, SearchLimitError: see ``find_page``.
        """
        identity = asked.identity
        token, state_id = None, b""
        limit = PAGE_LIMIT_MAX if asked.page.limit is None else asked.page.limit
        # Clients that loop send the empty token of the last page, too: it begins a new search.
        if asked.page.token:
            token = self._tokens.decode(asked.page.token, identity)
            if asked.page.limit not in (None, token.limit):
                raise AuthZenError(f"page.limit: expected {token.limit}, as for the page before")
            limit = token.limit
            state_id = yield from self._identify(asked.query, searched, image)
            check_state(token, state_id)
        start = None if token is None else token.position
        size = min(limit, PAGE_LIMIT_MAX)
        page = yield from find_page(searched, asked.query, start, size)
        if page.end is None:
            return page, ""
        state_id = state_id or (yield from self._identify(asked.query, searched, image))
        return page, self._tokens.encode(PageToken(limit, state_id, page.end), identity)

    def _identify(self, query: Query, searched: State, image: ClusterImage) -> Steps[bytes]:
        """Return, in steps, what identifies the state that a search depends on."""
        parts = [(yield from self._acls.identify(searched.snapshot.acls))]
        if query.resource_name is None and query.resource_type == ResourceType.TOPIC:
            parts.append((yield from self._topics.identify(image.topic_names)))
        settings = searched.settings
        parts.append(b"%d" % settings.allow_everyone_if_no_acl_found)
        parts += [user.encode() for user in sorted(settings.super_users)]
        return blake2b(msgspec.msgpack.encode(parts), digest_size=STATE_BYTES).digest()

    def _report(
        self, asked: _Asked, state: DecisionState, count: int, requester: PortRequester
    ) -> None:
        """Count a search, and have it audited; see docs/audit.md for its line."""
        if count:
            self._counts.allowed += 1
        else:
            self._counts.denied += 1
        query, rule = asked.query, SURFACE
        operation: int = Operation.ANY
        # Without a resource's name, no decision is meant, so the line must not name an operation:
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
        context = DecisionContext(
            _AUDITED_AS[asked.path], DecisionCounts(), count, requester=requester
        )
        self._searched.report(state, question, Decision(True, NamedRule(rule)), context)


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A search, and who asks for it."""

    path: str
    caller: str | None
    page: PageRequest
    query: Query

    def own_only(self, settings: AuthorizerSettings) -> bool:
        """Return True if the answer must not have names that only others' ACLs mention."""
        return self.caller == self.query.principal and self.caller not in settings.super_users

    @property
    def identity(self) -> bytes:
        """The bytes that the tokens of this search have in common."""
        return msgspec.msgpack.encode((self.path, self.caller, self.query))


class _Identified:
    """The id of a large set, kept until another set is asked for.

    A weak reference does not keep the set: freeing an old one takes long.
    """

    def __init__(self) -> None:
        self._set: weakref.ref[Map[bytes, Any]] | None = None
        self._id = b""

    def identify(self, ids: Map[bytes, Any]) -> Steps[bytes]:
        """Return, in steps, what identifies the keys of a map."""
        if self._set is None or self._set() is not ids:
            found = yield from combine_ids(ids)
            self._set, self._id = weakref.ref(ids), found
        return self._id


def _respond(results: tuple[Found, ...], context: SearchContext, token: str = "") -> Response:
    body = encode_search_answer(results, context, token)
    return Response(status=200, body=body, content_type=JSON)
