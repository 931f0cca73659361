"""``authorizerd verify``: compare brokers' recorded decisions with those of this code.

The command belongs to replay, whose errors become those of a command here.
"""

from __future__ import annotations

import argparse

from authorizerd.cli.errors import CommandError
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.verify.command import add_arguments, run


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    try:
        return run(parsed)
    except (AclSourceError, TrafficError) as error:
        raise CommandError(str(error)) from error
