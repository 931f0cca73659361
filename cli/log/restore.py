"""``authorizerd restore``: verify a backup, and replace a log with it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import msgspec

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.configuration_file import LogDirectory, read_log_directory
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_directory_arguments, add_switch, add_text, read_request
from authorizerd.cli.log.backup import describe_backup
from authorizerd.cli.output import print_document, warn
from authorizerd.cli.program.ending import saying
from authorizerd.daemon.sources.own_log_directory import new_uuid
from authorizerd.metadata.backups.backup import OWN_LOG, Backup
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.backups.restore import Restored, recover, restore
from authorizerd.metadata.backups.restore_target import RestoreTarget, check_place, examine_target
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, RESTORE_PREFIX
from authorizerd.metadata.errors import BackupError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.meta_properties import make_directories
from authorizerd.metadata.storage import DISK


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``restore``, without the place."""

    backup: Path
    dry_run: bool
    other_cluster: bool
    next_offset: int
    json: bool


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "backup", type=Path, metavar="BACKUP", help="a file written by `authorizerd backup`"
    )
    add_directory_arguments(parser)
    text = "verify that the backup can be restored, but replace nothing; the daemon may be running"
    add_switch(parser, "--dry-run", text)
    text = "accept a backup of another cluster; the directory keeps its own cluster id"
    add_switch(parser, "--other-cluster", text)
    text = (
        "let the log continue at this offset or later: one above the newest offset that clients "
        "have seen. Needed only if the old log is lost"
    )
    add_text(parser, "--next-offset", "OFFSET", text, type=int, default=0)
    add_switch(parser, "--json", "print what was done as JSON")


def _run(arguments: argparse.Namespace) -> int:
    place = read_log_directory(arguments)
    request = read_request(RestoreRequest, arguments)
    if request.next_offset < 0:
        arguments.refuse("--next-offset: expected an offset of at least 0")
    if place.configuration is not None and place.configuration.follow is not None:
        raise CommandError(
            "this configuration follows a cluster, whose log the daemon copies automatically: "
            "restore the cluster, then run `authorizerd reset-copy`"
        )
    _check_owner(place.path)
    was_there = check_place(place.path)
    backup = read_backup(request.backup)
    try:
        with saying(lambda: _describe_whole(place.path)):
            target, restored = _restore(backup, place, request)
    except OSError as error:
        raise BackupError(
            f"{error.filename or place.path}: {error.strerror or error}. "
            f"{_describe_whole(place.path)}"
        ) from error
    _print(request, backup, target, restored, is_created=not was_there)
    return 0


def _describe_whole(log_dir: Path) -> str:
    """Return a text that is true after a failure at any moment."""
    return (
        "The log is either the complete old one or the complete restored one. If a directory "
        f"{RESTORE_PREFIX}... is left in {log_dir}, it has the other"
    )


def _restore(
    backup: Backup, place: LogDirectory, request: RestoreRequest
) -> tuple[RestoreTarget, Restored]:
    log_dir, configuration = place
    with ExitStack() as stack:
        if request.dry_run:
            stack.enter_context(_temporary_directories(log_dir))
        else:
            make_directories(log_dir, DISK)
            stack.enter_context(locked(log_dir))
            put_back = recover(log_dir)
            if put_back is not None:
                warn(f"note: put the log of {put_back} back")
        target = examine_target(
            log_dir,
            backup,
            node_id=None if configuration is None else configuration.node_id,
            new_id=new_uuid,
            is_other_cluster=request.other_cluster,
            next_offset=request.next_offset,
        )
        return target, restore(backup, target, datetime.now(UTC), is_dry_run=request.dry_run)


@contextmanager
def _temporary_directories(log_dir: Path) -> Iterator[None]:
    """Create missing directories down to ``log_dir``, and remove them afterwards."""
    missing = list(takewhile(lambda each: not each.exists(), (log_dir, *log_dir.parents)))
    make_directories(log_dir, DISK)
    try:
        yield
    finally:
        for each in missing:
            each.rmdir()


def _check_owner(log_dir: Path) -> None:
    """Refuse to write files of root into another user's directory."""
    for path in (log_dir / METADATA_TOPIC_DIRECTORY, log_dir):
        if path.exists():
            owner = path.stat().st_uid
            if os.geteuid() == 0 and owner != 0:
                raise BackupError(
                    f"{path}: belongs to the user with id {owner}, who could not read root's "
                    "files: run this command as that user, for example with `runuser -u "
                    f"'#{owner}'`"
                )
            return


def _print(
    request: RestoreRequest,
    backup: Backup,
    target: RestoreTarget,
    restored: Restored,
    *,
    is_created: bool,
) -> None:
    added, removed = _compare(backup, target)
    if request.json:
        document = {
            "backup": str(backup.path),
            "sha256": backup.sha256,
            "facts": backup.facts,
            "log_dir": str(target.log_dir),
            "is_dry_run": request.dry_run,
            "is_created": is_created,
            "cluster_id": target.properties.cluster_id,
            "next_offset": restored.end_offset,
            "epoch": restored.epoch,
            "replaced": None if restored.replaced is None else str(restored.replaced),
            "acls_added": added,
            "acls_removed": removed,
            "old_log_fault": target.old.fault or None if target.old else None,
        }
        print_document(document)
        return
    print(f"{backup.path}: verified")
    for line in describe_backup(backup):
        print(line)
    done = "can be restored; nothing was replaced" if request.dry_run else "restored"
    print(f"{target.log_dir}: {done}; cluster {target.properties.cluster_id}")
    print(f"the log continues at offset {restored.end_offset}, after epoch {restored.epoch}")
    if added is not None and removed is not None:
        print(
            f"compared with the old log: {count_of(added, 'ACL')} added, "
            f"{count_of(removed, 'ACL')} removed"
        )
    elif target.old is not None:
        print(f"the old log cannot be read: {target.old.fault}")
    else:
        print(_describe_new(request, is_created=is_created))
    if restored.replaced is not None:
        print(f"the old log is kept in {restored.replaced}")
    if backup.facts.source != OWN_LOG:
        warn(
            "note: this is a backup of a followed cluster's copy. From now on, this log and the "
            "cluster are independent"
        )


def _describe_new(request: RestoreRequest, *, is_created: bool) -> str:
    """Return the line about a directory that had no log: its name may be a typo."""
    if is_created:
        created = "would be created" if request.dry_run else "was created"
        text = f"there was no old log: the directory {created}"
    else:
        text = "there was no old log in the directory"
    if not request.next_offset:
        text += ". If clients have seen later offsets of a lost log, --next-offset is needed"
    return text


def _compare(backup: Backup, target: RestoreTarget) -> tuple[int | None, int | None]:
    """Return how many ACLs the restore adds and removes; None if the old ACLs are unknown."""
    if target.old is None or target.old.acls is None:
        return None, None
    restored = frozenset(backup.state.acls.values())
    return len(restored - target.old.acls), len(target.old.acls - restored)
