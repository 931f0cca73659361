"""The flags of commands that name the authors of changes, and the audit logs that they name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from authorizerd.acl.audit.authors import Authors, Window
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.acl.past import PastChange
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import Flags, Refuse, add_text
from authorizerd.daemon.audit.evidence import AuditLogs, Limits, read_evidence


def add_audit_arguments(parser: Flags) -> None:
    """Add the flags that ``read_authors`` reads."""
    default = Window()
    text = (
        "audit logs of controllers and of authorizerd, directories or globs: show who made each "
        "change; rotated and compressed files are read too"
    )
    parser.add_argument(
        "--audit", action="extend", nargs="+", default=[], metavar="FILE", help=text
    )
    text = "time zone of times in --audit without one (default: %(default)s)"
    add_text(parser, "--audit-tz", "ZONE", text, default="UTC")
    text = "longest time from a request's audit line to its change (default: %(default)s)"
    add_text(parser, "--audit-latency-ms", "MS", text, type=_parse_ms, default=default.latency_ms)
    text = "how far the clocks of two nodes may differ (default: %(default)s)"
    add_text(parser, "--audit-skew-ms", "MS", text, type=_parse_ms, default=default.skew_ms)


def read_authors(arguments: argparse.Namespace, changes: Sequence[PastChange]) -> Authors | None:
    """Return the authors of changes; None without ``--audit``. Blocks on the files."""
    if not arguments.audit:
        return None
    try:
        zone = find_zone(arguments.audit_tz)
    except ValueError as error:
        refuse: Refuse = arguments.refuse
        refuse(f"--audit-tz: {error}")
    window = Window(latency_ms=arguments.audit_latency_ms, skew_ms=arguments.audit_skew_ms)
    limits = Limits(since_ms=min((change.time_ms for change in changes), default=0))
    logs = [AuditLogs(name, zone) for name in arguments.audit]
    return Authors(read_evidence(logs, limits, window, _refuse_file), window)


def _refuse_file(name: str, error: Exception) -> NoReturn:
    reason = error.strerror if isinstance(error, OSError) else None
    raise CommandError(f"--audit: {name}: {reason or error}") from error


def _parse_ms(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 86_400_000:
        raise argparse.ArgumentTypeError(f"expected milliseconds, at most a day, found {text!r}")
    return int(text)
