"""``authorizerd acls grants``: the grants of a cluster, a log or a file, with their ends.

Exit codes: 0 the grants are printed, even if there are none; 1 the ACLs cannot be read; 2 invalid
arguments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from authorizerd.acl.as_of import format_time
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.grants.model import Grant
from authorizerd.acl.grants.reading import (
    State,
    describe_access,
    find_state,
    format_utc,
    read_grants,
)
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.cli.acl_source import add_source_arguments, read_source
from authorizerd.cli.flags import add_json_argument
from authorizerd.cli.output import align, print_answer

_UNREADABLE: Final = "these notes cannot be read, so it is not known what they end:"


class NamedGrant(msgspec.Struct, frozen=True):
    """A grant in a JSON document, which docs/documents.md describes.

    ``has_acl`` is None if it is not known.
    """

    id: str
    state: State
    begin: str
    end: str
    author: str
    reason: str
    has_acl: bool | None
    acl: NamedAcl


def name_grant(grant: Grant, state: State | None = None, has_acl: bool | None = None) -> NamedGrant:
    return NamedGrant(
        grant.id,
        state or (State.WAITING if grant.is_waiting else State.ACTIVE),
        format_time(grant.begin_ms),
        format_time(grant.end_ms),
        grant.author,
        grant.reason,
        has_acl,
        name_acl(grant.acl),
    )


def add_grants_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    add_json_argument(parser)
    add_source_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    source = read_source(arguments)
    acls = frozenset(source.snapshot.acls.values())
    moment = source.moment
    now_ms = moment.time_ms if moment and moment.time_ms is not None else time.time() * 1000
    found = read_grants(acls)
    rows = [(grant, find_state(grant, int(now_ms)), grant.acl in acls) for grant in found.grants]

    def list_lines() -> Iterator[str]:
        yield from align([_describe(*row) for row in rows])
        if found.faults:
            yield _UNREADABLE
            yield from found.faults
        yield f"{count_of(len(rows), 'grant')}, {source.describe_acls()}"

    return print_answer(
        as_json=arguments.json,
        document=lambda: {
            "grants": [name_grant(*row) for row in rows],
            "unreadable": found.faults,
            "source": source.document,
        },
        lines=list_lines,
        is_positive=True,
    )


def _describe(grant: Grant, state: State, has_acl: bool) -> tuple[str, str]:
    since = f"{'from' if grant.is_waiting else 'since'} {format_utc(grant.begin_ms)}"
    gone = "" if has_acl or grant.is_waiting else ", whose ACL was deleted"
    reason = f": {grant.reason}" if grant.reason else ""
    what = f"{describe_access(grant.acl)}{gone}, {since}, by {grant.author}{reason}"
    return f"{state.value} until {format_utc(grant.end_ms)}", what
