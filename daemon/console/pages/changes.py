"""The page *Changes*: how many ACLs were added and removed over time, by whom, and the latest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from authorizerd.acl.as_of import format_time
from authorizerd.acl.audit.authors import Certainty
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.grants.reading import describe_note
from authorizerd.acl.notes import is_note
from authorizerd.acl.text.named_acl import NamedAcl, parse_acl
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.console.svg import Picture, draw_bars
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.errors import (
    BusyError,
    ForbiddenError,
    PastRefusedError,
    PastUnavailableError,
)
from authorizerd.daemon.queries.acl_surface import check_may_list
from authorizerd.daemon.queries.changes import (
    CHANGES_MAX,
    DEFAULT_DAYS,
    ChangeOverview,
    ChangeSpan,
)
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.listings import new_check
from authorizerd.protocol.decisions.acl_filters import QueryError, check_names, read_as_of
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.queries import ChangesQuestion

_FIELDS: Final = ("since", "until")
_DESCRIPTION: Final = "Bars upwards are ACLs added, bars downwards are ACLs removed."
_CERTAINTIES: Final = {
    Certainty.WRITTEN: "an audit line has the offset",
    Certainty.COMPLETE: "the only caller in complete audit logs",
    Certainty.ONLY: "the only caller in the given audit logs",
    Certainty.ONE_OF: "more than one caller fits",
    Certainty.UNKNOWN: "no audit log says it",
}


class ChangesPage:
    """Show the changes between two moments. A visitor needs the right to read ACLs.

    Args:
        path: the path of this page, for links to a span.
        queries: read the log.
    """

    def __init__(self, path: str, authorizer: StandardAuthorizer, queries: Queries) -> None:
        self._path: Final = path
        self._authorizer: Final = authorizer
        self._queries: Final = queries

    async def __call__(self, visit: Visit) -> Shown:
        """Show the form and the changes."""
        fields = dict(visit.parameters)
        found, failure, status = None, "", 200
        try:
            check_names(fields, _FIELDS)
            found = await self._ask(visit)
        except (QueryError, PastRefusedError) as error:
            failure, status = str(error), 400
        except ForbiddenError as error:
            failure, status = str(error), 403
        except (BusyError, NotReadyError, PastUnavailableError) as error:
            failure, status = str(error), 503
        context: dict[str, Any] = {
            "fields": dict.fromkeys(_FIELDS, "") | fields,
            "failure": failure,
            "found": found,
            "default_days": DEFAULT_DAYS,
            "changes_max": CHANGES_MAX,
            "certainties": _CERTAINTIES,
        }
        if found is not None:
            context |= self._draw(found)
        return Shown(template="changes.html.jinja", context=context, status=status)

    async def _ask(self, visit: Visit) -> ChangeOverview:
        caller, fields = visit.caller, visit.parameters
        state = check_may_list(self._authorizer, caller)
        given = {name: value for name, value in fields.items() if value}
        since, until = (read_as_of(given, name) for name in _FIELDS)
        check = new_check(self._authorizer, state, lambda: caller.check(ACLS))
        asked = ChangesQuestion(since, until, state.settings)
        offset = state.offset
        del state  # otherwise it would be kept alive for too long
        answer = await self._queries.ask(asked, caller=caller.principal, offset=offset)
        check()
        return msgspec.json.decode(answer.bodies[0], type=ChangeOverview)

    def _draw(self, found: ChangeOverview) -> Mapping[str, Any]:
        spans = found.spans
        title = f"ACLs added and removed in each {found.unit}"
        labels = ["", "", ""]
        if spans:
            labels = [_shorten(spans[place].begin_ms) for place in (0, len(spans) // 2)]
            labels.append(_shorten(spans[-1].end_ms))
        picture = draw_bars(
            Picture("changes", title, _DESCRIPTION),
            [span.added for span in spans],
            [span.removed for span in spans],
            labels,
        )
        return {
            "picture": picture,
            "added": sum(span.added for span in spans),
            "removed": sum(span.removed for span in spans),
            "spans": [
                (self._link(found, span), _shorten(span.begin_ms), span)
                for span in reversed(spans)
                if span.added or span.removed
            ],
            "latest": [(each, _read_note(each.acl)) for each in found.latest],
        }

    def _link(self, found: ChangeOverview, span: ChangeSpan) -> str:
        """Return the page with the changes that the span counts."""
        # A moment includes its own millisecond.
        since, until = format_time(span.begin_ms - 1), format_time(span.end_ms - 1)
        if span is found.spans[0]:  # it may begin before the log does
            since = str(max(found.begin.offset, 0))
        if span is found.spans[-1] and found.is_cut:
            until = str(found.end.offset)
        return f"{self._path}?{urlencode({'since': since, 'until': until})}"


def _read_note(named: NamedAcl) -> str:
    """Return what a note says; "" for another ACL."""
    acl = parse_acl(named)
    return describe_note(acl) if is_note(acl) else ""


def _shorten(time_ms: int) -> str:
    """Return a time to the minute."""
    return format_time(time_ms)[:16].replace("T", " ")
