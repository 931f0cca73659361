"""``authorizerd reset-copy``: remove the copy of a followed cluster, so that a new one is made.

**Invariant:** the command removes only a copy's files, and never while a daemon uses them. If it is
interrupted, the directory is still marked as a copy, and the command can be repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_config_arguments, add_json_argument
from authorizerd.cli.output import print_document
from authorizerd.cli.program.ending import saying
from authorizerd.metadata.copy_directory import MARK_NAME, read_mark, remove_copy, remove_mark
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.storage import DISK


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    add_config_arguments(parser)
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    configuration = read_configuration(arguments.config, arguments.override)
    log_dir = Path(configuration.metadata_log_dir)
    _check_mark(log_dir)  # check this before locking, which creates the lock file
    removed: list[Path] = []
    with locked(log_dir), saying(lambda: _describe_begun(removed)):
        _check_mark(log_dir)
        for path in _remove(log_dir):
            removed.append(path)
            if not arguments.json:
                print(f"Removed {path}")
    if arguments.json:
        print_document({"log_dir": str(log_dir), "removed": [str(path) for path in removed]})
    else:
        print("The next start of the daemon fetches everything from the cluster again.")
    return 0


def _describe_begun(removed: Sequence[Path]) -> str:
    return (
        f"removed {count_of(len(removed), 'path')} of the copy: until the rest is removed, the "
        "daemon treats the directory as a copy. Run the command again"
    )


def _remove(log_dir: Path) -> Iterator[Path]:
    """Remove the copy, and then its mark; yield each removed path."""
    try:
        yield from remove_copy(log_dir, DISK)
        yield remove_mark(log_dir, DISK)
    except OSError as error:
        raise LogDirectoryError(f"{log_dir}: {error}") from error


def _check_mark(log_dir: Path) -> None:
    if read_mark(log_dir) is None:
        raise CommandError(
            f"{log_dir}: expected a copy of a followed cluster ({MARK_NAME}), found none: nothing "
            "was removed. Check log.dirs (or metadata.log.dir)"
        )
