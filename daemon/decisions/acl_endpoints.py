"""The answers of the listing and the watch of ACLs, for the port's OpenAPI document."""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.decisions.acl_list import ACLS_PATH
from authorizerd.daemon.decisions.acl_watch import WATCH_PATH
from authorizerd.daemon.decisions.refusals import INVALID
from authorizerd.protocol.decisions.acl_feed import (
    AclsEvent,
    BeginEvent,
    ListedAcl,
    ListingBegin,
    ListingEnd,
    StateEvent,
)
from authorizerd.protocol.http.endpoints import (
    EVENTS,
    GET,
    LINES,
    Answer,
    Endpoint,
    Parameter,
)
from authorizerd.protocol.http.rights import ACLS

_FILTER_MEANINGS: Final = (
    ("resource_type", "Kafka's name of a resource type, in any case."),
    ("resource_name", "The name of a resource pattern; with `pattern_type=MATCH`, of a resource."),
    ("pattern_type", "`LITERAL`, `PREFIXED`, `MATCH` or `ANY`."),
    ("principal", "A type and a name, such as `User:alice`."),
    ("host", "An IP address, or `*`."),
    ("operation", "Kafka's name of an operation, in any case."),
    ("permission_type", "`ALLOW`, `DENY` or `ANY`."),
)
_UNSEEN: Final = Answer(
    403,
    "The caller may not see ACLs. The text names the principal, which `authorizerd.callers.read`"
    " must list.",
)
_BUSY: Final = Answer(
    503,
    "`AUTHORIZER_NOT_READY`: the ACLs are not loaded yet, or stale. Or a limit is reached; then"
    " `Retry-After` is set. The text says which.",
    headers=("Retry-After",),
)
_IF_ALL_TRUSTED: Final = (
    INVALID,
    Answer(
        403,
        "This port refuses every request to this path: it requires no credentials, so it does not"
        " know who may see ACLs. Set `authorizerd.tokens.file`, and send a token.",
    ),
)
ACL_ENDPOINTS: Final = (
    Endpoint(
        path=ACLS_PATH,
        needs=ACLS,
        methods=GET,
        name="listAcls",
        tag="ACLs",
        summary="List the ACLs at one log offset",
        description="The answer has a line of JSON for the offset, one for each ACL, and one for"
        " their number. Without the last line, it is incomplete. An absent parameter matches every"
        " value.",
        parameters=(
            *(
                Parameter(name, "query", f"Only ACLs with this value. {meaning}")
                for name, meaning in _FILTER_MEANINGS
            ),
            Parameter(
                "as_of",
                "query",
                "List the ACLs of an earlier moment: an offset of the log, a time with its zone, or"
                " milliseconds since 1970.",
            ),
        ),
        answers=(
            Answer(200, "The ACLs.", parts=(ListingBegin, ListedAcl, ListingEnd), media_type=LINES),
            INVALID,
            _UNSEEN,
            _BUSY,
        ),
        if_all_trusted=_IF_ALL_TRUSTED,
    ),
    Endpoint(
        path=WATCH_PATH,
        needs=ACLS,
        methods=GET,
        name="watchAcls",
        tag="ACLs",
        summary="Follow the changes of ACLs as server-sent events",
        description="Every change after an offset is sent, once and in order. To resume after a"
        " lost connection, send the last id again. docs/watch.md describes the events.",
        parameters=(
            Parameter(
                "after",
                "query",
                "Send the changes after this log offset. Without it, changes after the newest"
                " offset are sent.",
                int,
            ),
            Parameter("Last-Event-ID", "header", "As `after`, and takes precedence over it."),
        ),
        answers=(
            Answer(
                200,
                "The events follow. Each has one of these objects as its data.",
                parts=(BeginEvent, AclsEvent, StateEvent),
                media_type=EVENTS,
            ),
            INVALID,
            _UNSEEN,
            Answer(410, "The changes after this offset are not in memory: list the ACLs again."),
            _BUSY,
        ),
        if_all_trusted=_IF_ALL_TRUSTED,
    ),
)
