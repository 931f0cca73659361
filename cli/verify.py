"""``authorizerd verify``: compare brokers' recorded decisions with those of this code.

The command belongs to replay, whose errors become those of a command here. The ACLs and the
settings are found as by ``explain``.
"""

from __future__ import annotations

import argparse
import time

from authorizerd.acl.releases import Release
from authorizerd.cli.acl_source import (
    LogPlace,
    Place,
    SourceRequest,
    add_source_arguments,
    open_place,
)
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import read_request
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.text import format_time
from authorizerd.replay.verify.command import add_arguments, run
from authorizerd.replay.verify.history import list_states, read_history


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    add_source_arguments(parser, is_of_moment=False)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    listed_ms = time.time_ns() // 1_000_000
    place = open_place(read_request(SourceRequest, parsed))
    try:
        if isinstance(place, LogPlace):
            releases = tuple(Release) if place.release is None else (place.release,)
            return run(parsed, read_history(place.path), place.settings, releases)
        if place.unread:
            raise CommandError(f"{place.name}: expected a file that is read as a whole")
        is_live = place.place is Place.BROKERS
        history = list_states(
            f"{place.name}, listed at {format_time(listed_ms)}" if is_live else place.name,
            place.snapshot.acls.values(),
            listed_ms if is_live else None,
        )
        return run(parsed, history, place.settings, place.snapshot.rules.releases)
    except (AclSourceError, TrafficError) as error:
        raise CommandError(str(error)) from error
