"""``authorizerd features``: show and raise the metadata.version of a log.

It decides by the rules of which Kafka release the daemon judges the log's ACLs.

Exit codes: 0 done, 1 a fault, 2 invalid arguments.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Final

from immutables import Map

from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.hosts import HostKind, get_kind
from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.acl.releases import releases_at, rules_for
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.log_directory import add_directory_arguments, read_log_directory
from authorizerd.cli.release_version import metadata_version, name_metadata_version
from authorizerd.config.ending import saying
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.own_log_directory import claim_log_directory
from authorizerd.daemon.utc_time import now_ms
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.errors import LogDirectoryError, LogNotWrittenError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK
from authorizerd.metadata.writer import LogWriter

ACLS_NAMED_MAX: Final = 20
SEGMENT_BYTES_MAX: Final = 2**31
_UNKNOWN: Final = "it is not known whether the level is raised: run the command again"


def add_features_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    parser.add_argument(
        "action",
        choices=("describe", "upgrade"),
        help="describe: show the level, also of a log in use; upgrade: raise it, while the daemon "
        "is stopped",
    )
    parser.add_argument(
        "--metadata",
        type=metadata_version,
        metavar="VERSION",
        help="the metadata.version to upgrade to, such as 4.4-IV2. Kafka 4.3 cannot read a log "
        "with a higher one than 4.3-IV0",
    )
    add_directory_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Show or raise the level, and print by which rules ACLs are judged.

    Raises:
        StartError, ConfigurationError: the configuration is unusable, the directory is a copy, or
            the level would be lowered.
        MetadataLogError: the log is in use, damaged, or cannot be written.
    """
    if (arguments.action == "upgrade") != (arguments.metadata is not None):
        arguments.refuse("expected --metadata VERSION with upgrade, and without it for describe")
    log_dir = read_log_directory(arguments).path
    if arguments.action == "describe":
        _describe(log_dir)
        return 0
    MetadataLog.open(log_dir, DISK)  # before locking, which creates the lock's file
    with locked(log_dir):
        _upgrade(log_dir, arguments.metadata)
    return 0


def _describe(log_dir: Path) -> None:
    replay, _ = _read(MetadataLog.open(log_dir, DISK))
    print(f"{METADATA_VERSION_FEATURE}: {name_metadata_version(replay.metadata_version)}")
    found = judge_release(ClusterImage(features=Map(replay.features)), Evidence.OWN_LOG)
    print(f"A daemon that owns this log judges by the rules of Kafka {found.rules}.")


def _upgrade(log_dir: Path, level: int) -> None:
    properties = read_meta_properties(log_dir, DISK)
    if properties is None:
        raise StartError(f"{log_dir}: expected meta.properties: start the daemon once, and stop it")
    claim_log_directory(log_dir, node_id=properties.node_id, storage=DISK)
    log = MetadataLog.open(log_dir, DISK)
    replay, snapshot = _read(log)
    before = replay.metadata_version
    if level < before:
        raise StartError(
            f"--metadata: expected at least {name_metadata_version(before)}, the level of the log,"
            f" found {name_metadata_version(level)}"
        )
    if level == before:
        print(f"The log has {name_metadata_version(level)} already.")
        return
    writer = LogWriter(log_dir, storage=DISK, segment_bytes_max=SEGMENT_BYTES_MAX, now_ms=now_ms)
    try:
        with saying(lambda: _UNKNOWN), closing(writer):
            writer.start(log.progress, replay, node_id=properties.node_id)
            writer.append([[FeatureLevel(METADATA_VERSION_FEATURE, level)]])
    except LogNotWrittenError as error:
        raise LogDirectoryError(f"{log_dir}: {error}; the level is unchanged") from error
    except OSError as error:
        place = error.filename or log_dir
        raise LogDirectoryError(f"{place}: {error.strerror or error}; {_UNKNOWN}") from error
    print(f"{log_dir}: {name_metadata_version(before)} is now {name_metadata_version(level)}.")
    _report_ranges(snapshot, before, level)


def _read(log: MetadataLog) -> tuple[Replay, AclSnapshot]:
    replay, builder = Replay(), SnapshotBuilder()
    for log_batch in log.batches():
        for step in replay.steps(log_batch):
            if step is not None:
                builder.apply_changes(step.changes)
    return replay, builder.freeze(log.progress.last_offset)


def _report_ranges(snapshot: AclSnapshot, before: int, after: int) -> None:
    """Name the ACLs that may have another meaning by the rules of the new level."""
    if releases_at(before) == releases_at(after):
        return
    print(f"ACLs are judged by the rules of Kafka {rules_for(releases_at(after))} from now on.")
    ranges = [acl for acl in snapshot.acls.values() if get_kind(acl.host) is HostKind.RANGE]
    if not ranges:
        print("No ACL has a host that is a range of addresses now.")
        return
    print(f"{count_of(len(ranges), 'ACL')} may match a range of addresses now:")
    for acl in sorted(ranges, key=str)[:ACLS_NAMED_MAX]:
        print(f"  {acl}")
    if len(ranges) > ACLS_NAMED_MAX:
        print(f"  and {len(ranges) - ACLS_NAMED_MAX} more")
