"""The arguments of ``authorizerd verify --follow``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from authorizerd.cli.program.flag_values import parse_address, parse_loopback
from authorizerd.cli.program.flags import add_switch, add_value
from authorizerd.metadata.copy_directory import read_mark
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.replay.acls.log import find_log
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.options import parse_file, refuse

LISTEN: Final = "127.0.0.1:9183"
_LISTED: Final = "brokers"
"""The source of a copy that has only changes, and no records that show the time."""


def add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``--follow``."""
    text = (
        "read --logs and --log-dir as they are written, until a signal: count in --state, "
        "and export metrics"
    )
    add_switch(parser, "--follow", text)
    text = "with --follow: the positions in the logs, and all counts; a restart continues there"
    add_value(parser, "--state", parse_file, "FILE", text)
    text = f"with --follow: a loopback address that serves the metrics; default {LISTEN}"
    add_value(parser, "--listen", parse_loopback, "HOST:PORT", text)
    text = (
        "with --follow: the admin or metrics port of the daemon that writes --log-dir, for a "
        "copy of listings or a daemon's own log"
    )
    add_value(parser, "--daemon-metrics", parse_address, "HOST:PORT", text)


def check_follow(parsed: argparse.Namespace, log: Path | None) -> None:
    """Reject arguments that do not fit together.

    Args:
        log: the log that the arguments name, None if they name other ACLs.

    Raises:
        AclSourceError: the mark of a copy cannot be read.
    """
    if not parsed.follow:
        for name in ("state", "listen", "daemon_metrics"):
            if getattr(parsed, name) is not None:
                refuse(parsed, f"--{name.replace('_', '-')}: expected --follow")
        return
    refusals = (
        (parsed.state is None, "--follow: expected --state FILE"),
        (
            log is None,
            "--follow: expected --log-dir or --config: only a log shows the ACLs of each time",
        ),
        (parsed.json, "--json: expected no --follow, which logs each difference as JSON"),
        ("-" in parsed.logs, "--logs -: expected files or topics with --follow"),
        (
            parsed.newest_within is not None,
            "--newest-within: expected no --follow, whose metrics show the newest time",
        ),
    )
    for is_refused, text in refusals:
        if is_refused:
            refuse(parsed, text)
    assert log is not None, "it was refused"
    try:
        mark = read_mark(find_log(log))
    except MetadataLogError as error:
        raise AclSourceError(str(log), str(error)) from error
    if mark is not None and mark.source == _LISTED and parsed.daemon_metrics is None:
        refuse(
            parsed,
            f"{log} is a copy of brokers' listings, which does not show "
            "until when it is known: pass --daemon-metrics HOST:PORT",
        )
