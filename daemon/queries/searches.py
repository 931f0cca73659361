"""Pages of searches, as the query process answers them.

**Invariant:** all pages of a search show one state. If the ACLs, the settings or the topics have
changed since the previous page, the next page is an error. A new log offset alone does not matter.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.state_version import combine_ids
from authorizerd.daemon.queries.access_rows import Row, read_rows
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.decisions.authzen import AuthZenError
from authorizerd.protocol.decisions.page_tokens import (
    STATE_BYTES,
    PageToken,
    PageTokens,
    check_state,
)
from authorizerd.protocol.decisions.search_pages import find_page
from authorizerd.protocol.decisions.search_results import SearchPage, State
from authorizerd.protocol.decisions.searches import PAGE_LIMIT_MAX, Query, SearchContext
from authorizerd.protocol.queries import SearchQuestion

ROWS_AT_ONCE: Final = sys.maxsize
"""A page may have fewer rows if these are long."""


def find_next_page(
    question: SearchQuestion, searched: State, image: ClusterImage, tokens: PageTokens
) -> tuple[SearchPage, str]:
    """Return the page that a question asks for, and the token of the next one.

    Raises:
        AuthZenError: the token does not belong to this search, or has expired.
        InvalidQuestionError, SearchLimitError: see ``find_page``.
    """
    identity = msgspec.msgpack.encode((question.caller, question.query))
    token, state_id = None, b""
    limit = PAGE_LIMIT_MAX if question.limit is None else question.limit
    # Looping clients may send the empty token of the last page, which begins a new search.
    if question.token:
        token = tokens.decode(question.token, identity)
        if question.limit not in (None, token.limit):
            raise AuthZenError(f"page.limit: expected {token.limit}, as for the previous page")
        limit = token.limit
        state_id = _identify(question.query, searched.snapshot, searched.settings, image)
        check_state(token, state_id)
    start = None if token is None else token.position
    page = find_page(searched, question.query, start, min(limit, PAGE_LIMIT_MAX))
    if page.end is None:
        return page, ""
    state_id = state_id or _identify(question.query, searched.snapshot, searched.settings, image)
    return page, tokens.encode(PageToken(limit, state_id, page.end), identity)


def find_rows(query: Query, searched: State) -> tuple[list[Row], SearchContext]:
    """Return the rows of all results, and the facts of all pages combined.

    Raises:
        InvalidQuestionError, SearchLimitError: see ``find_page``.
    """
    rows: list[Row] = []
    context, other_types, start = None, 0, None
    while True:
        page = find_page(searched, query, start, ROWS_AT_ONCE)
        rows += read_rows(query, page, is_first=start is None)
        context = context or page.context
        other_types += page.context.other_types
        start = page.end
        if start is None:
            return rows, msgspec.structs.replace(context, other_types=other_types)


def _identify(
    query: Query, snapshot: AclSnapshot, settings: AuthorizerSettings, image: ClusterImage
) -> bytes:
    """Return an identifier of the state that a search depends on."""
    parts = [snapshot.version]
    if query.resource_name is None and query.resource_type == ResourceType.TOPIC:
        parts.append(combine_ids(image.topic_names))
    parts.append(b"%d" % settings.allow_everyone_if_no_acl_found)
    parts += [user.encode() for user in sorted(settings.super_users)]
    return blake2b(msgspec.msgpack.encode(parts), digest_size=STATE_BYTES).digest()
