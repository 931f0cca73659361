"""``authorizerd backup``: write the state of a log to one file, while the log may be in use."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.configuration_file import read_log_directory
from authorizerd.cli.flags import add_directory_arguments, add_switch
from authorizerd.cli.output import print_document, warn
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.backups.backup import Backup, check_complete, checksum_path, write_backup
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.directory import checkpoint_name
from authorizerd.metadata.errors import BackupError
from authorizerd.metadata.log_state import LogState, read_state
from authorizerd.protocol.records.record_names import name_record_types


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "out",
        metavar="OUT",
        help="the backup file, preferably with a name that ends in .checkpoint, so that other "
        "commands recognize it; or a directory, in which the file gets Kafka's name for a "
        "checkpoint. OUT.sha256 gets its checksum",
    )
    add_directory_arguments(parser)
    add_switch(parser, "--json", "print what was written as JSON")


def _run(arguments: argparse.Namespace) -> int:
    log_dir = read_log_directory(arguments).path
    target = _check_target(arguments.out, log_dir)
    try:
        state = read_state(log_dir)
    except ChangeError as error:
        raise BackupError(
            f"{log_dir}: the log contradicts itself: {error}. Run `authorizerd check-log`, and "
            "keep older backups"
        ) from error
    check_complete(state)
    if target.is_dir():
        target /= checkpoint_name(state.content.end_offset, state.content.epoch)
    backup = _find_same(target, state)
    is_new = backup is None
    if backup is not None:
        _touch(backup)
    else:
        try:
            backup = write_backup(state, target, time.time_ns() // 1_000_000)
        except OSError as error:
            raise BackupError(f"{error.filename or target}: {error.strerror or error}") from error
    _print(backup, arguments.json, is_new=is_new)
    _print_notes(state)
    return 0


def _check_target(text: str, log_dir: Path) -> Path:
    """Return the path of OUT, after checking that a file there does no harm."""
    path = Path(text)
    is_directory = path.is_dir()
    if not is_directory and text.endswith(os.sep):
        raise BackupError(f"{text}: expected an existing directory, or the name of a file")
    folder = path if is_directory else path.parent
    if not folder.is_dir():
        raise BackupError(f"{text}: expected a path in an existing directory: create {folder}")
    if folder.resolve().is_relative_to(log_dir.resolve()):
        raise BackupError(
            f"{text}: expected a path outside the log directory {log_dir}, where the backup would "
            "be lost together with the log"
        )
    return path


def _find_same(path: Path, state: LogState) -> Backup | None:
    """Return the backup at ``path`` if it has the same state, None if there is no file.

    An unchanged log gives the same backup each time.
    """
    if not os.path.lexists(path):
        return None
    backup = read_backup(path)
    content, properties = state.content, state.properties
    cluster_id = properties.cluster_id if properties else ""
    found = (backup.facts.cluster_id, backup.state.end_offset, backup.state.epoch)
    is_same = found == (cluster_id, content.end_offset, content.epoch)
    if not is_same or (backup.state.cluster, backup.state.acls) != (content.cluster, content.acls):
        raise BackupError(
            f"{path}: is another backup, at offset {backup.facts.offset} of cluster "
            f"{backup.facts.cluster_id}; nothing was written: name another file"
        )
    return backup


def _touch(backup: Backup) -> None:
    """Touch the file, since the log still has this state, so that no cleanup job removes it."""
    try:
        os.utime(backup.path)
        if checksum_path(backup.path).exists():
            os.utime(checksum_path(backup.path))
    except OSError as error:
        raise BackupError(f"{backup.path}: {error.strerror or error}") from error


def _print(backup: Backup, as_json: bool, *, is_new: bool) -> None:
    if as_json:
        document = {
            "file": str(backup.path),
            "checksum_file": str(checksum_path(backup.path)),
            "sha256": backup.sha256,
            "is_new": is_new,
            "facts": backup.facts,
        }
        print_document(document)
        return
    print(f"{backup.path}: {'written' if is_new else 'already has this state'}")
    for line in describe_backup(backup):
        print(line)


def describe_backup(backup: Backup) -> list[str]:
    facts, contents = backup.facts, backup.facts.contents
    counts = (
        count_of(contents.acls, "ACL"),
        count_of(contents.topics, "topic"),
        count_of(contents.configs, "config"),
        count_of(contents.scram_credentials, "SCRAM credential"),
    )
    return [
        f"cluster {facts.cluster_id or 'unknown'}, node {facts.node_id}, {facts.source}",
        f"offset {facts.offset}, epoch {facts.epoch}, {facts.time}",
        ", ".join(counts),
        f"SHA-256 {backup.sha256}",
    ]


def _print_notes(state: LogState) -> None:
    for damaged in state.damaged_checkpoints:
        warn(
            f"warning: {damaged.error}: the backup is complete, because the log still has what this"
            " checkpoint contains"
        )
    if state.mark is not None:
        left_out = f" ({name_record_types(state.foreign_types)})" if state.foreign_types else ""
        warn(
            "note: the log is a copy of a followed cluster, and has only the records that this "
            f"daemon uses. Also back up the controllers: the rest is not in this backup{left_out}"
        )
