"""``authorizerd review``: a page and a CSV for each owner of ACLs, to decide which are needed.

The evaluation of recorded traffic belongs to replay, whose errors become those of a command here.
The ACLs and the settings are found as by ``explain``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from msgspec.structs import astuple

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.past import PastChange
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_file import read_text
from authorizerd.cli.acl_source import AclSource, Place, add_source_arguments, read_source
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_lines
from authorizerd.cli.program.flag_values import parse_duration
from authorizerd.cli.questions.authors import add_audit_arguments, read_authors
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.review.owners import read_owners
from authorizerd.metadata.past.history import read_history
from authorizerd.metadata.past.past_log import read_past
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.options import (
    add_reading_arguments,
    add_recorded_group,
    check_reading_arguments,
    make_ingest_plan,
)
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.options import PathError, resolve_input, resolve_output
from authorizerd.replay.recorded.tuples import Source
from authorizerd.replay.review.evidence import find_evidence
from authorizerd.replay.review.findings import Reviewed, make_pages

_SINCE: Final = "90d"
_AUTHORS: Final = "found in the audit logs of --audit"
_NO_AUTHORS: Final = "not known: Kafka does not record authors; pass --audit"


def add_review_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run, overwrite=False)
    text = "a YAML file that says which ACLs each owner owns"
    parser.add_argument("--owner", type=Path, required=True, metavar="TEAM", help=text)
    text = (
        "the window in which an ACL should be used, up to the last recorded request or the time of "
        f"the ACLs, such as 12h; default {_SINCE}"
    )
    parser.add_argument("--since", type=parse_duration, default=_SINCE, metavar="TIME", help=text)
    text = "a new or empty directory"
    parser.add_argument("--out", required=True, metavar="DIR", help=text)
    text = "treat ACLs of unknown age as older than the window"
    parser.add_argument("--assume-in-force", action="store_true", help=text)
    add_recorded_group(parser, is_required=False)
    add_reading_arguments(parser)
    add_audit_arguments(parser)
    add_source_arguments(parser)


def _run(parsed: argparse.Namespace) -> int:
    from authorizerd.replay.review.files import write_review  # it needs Jinja2, which is slow

    try:
        owners = read_owners(read_text(parsed.owner))
    except AclTextError as error:
        raise CommandError(escape_unprintable(f"{parsed.owner}: {error}")) from error
    source = read_source(parsed)
    if source.unread:
        raise CommandError(f"{source.name}: expected a file that is read as a whole")
    reviewed = _date(source, parsed)
    try:
        out = resolve_output(parsed.out, is_local=True, overwrite=False)
        evidence = find_evidence(
            reviewed.acl_set,
            _open_record(parsed, out),
            parsed.since,
            assume_in_force=parsed.assume_in_force,
        )
        pages = make_pages(reviewed, owners, evidence)
        print_lines(write_review(Path(out), pages, reviewed, evidence))
    except (PathError, TrafficError) as error:
        raise CommandError(str(error)) from error
    return 0


def _open_record(parsed: argparse.Namespace, out: str) -> Source | None:
    if parsed.logs:
        inputs = tuple(resolve_input(path, is_local=True) for path in parsed.logs)
        return LogEngine(make_ingest_plan(parsed, inputs, ""), out)
    check_reading_arguments(parsed)
    if parsed.events is None:
        return None
    from authorizerd.replay.local.table import TableEngine  # it needs pyarrow

    return TableEngine(resolve_input(parsed.events, is_local=True), out)


def _date(source: AclSource, parsed: argparse.Namespace) -> Reviewed:
    """Return the ACLs with the times and authors of their creation, if a log has them."""
    found, users = source.snapshot.acls, source.settings.super_users
    changes: list[PastChange] = []
    stamped_ms = None
    if source.place is Place.LOG and source.offset is not None and source.offset >= 0:
        until = AsOf(offset=source.offset)
        history = read_past(
            Path(source.name), lambda log: read_history(log, lambda _: True, until=until)
        )
        changes = [each for each in history.changes if each.is_added and each.id in found]
        stamped_ms = history.end.time_ms
    elif parsed.audit:
        parsed.refuse("--audit: expected --log-dir or --config: others do not date their ACLs")
    authors = read_authors(parsed, changes)
    times = {each.acl: each.time_ms for each in changes}
    dated = [DatedAcl(acl, times.get(acl)) for acl in found.values()]
    where = f"as listed by {source.name}"
    if source.offset is not None:
        at = f"at log offset {source.offset}" if source.moment is None else f"as of {source.moment}"
        where = f"in {source.name} {at}"
    return Reviewed(
        snapshot=source.snapshot,
        acl_set=AclSet(
            source=source.name,
            acls=tuple(sorted(dated, key=lambda item: astuple(item.acl))),
            digest=digest_of(found.values()),
            offset=source.offset,
            stamped_ms=stamped_ms,
            super_users=None if users is None else tuple(sorted(users)),
            allow_everyone_if_no_acl_found=source.settings.allow_everyone_if_no_acl_found,
            releases=source.snapshot.rules.releases,
        ),
        ids={} if source.offset is None else {acl: acl_id for acl_id, acl in found.items()},
        source=where,
        release=str(source.snapshot.rules),
        settings=tuple(map(str, source.stated)),
        known=source.settings,
        authors={} if authors is None else {each.acl: str(authors.find(each)) for each in changes},
        author_note=_NO_AUTHORS if authors is None else _AUTHORS,
    )
