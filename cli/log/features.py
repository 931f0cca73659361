"""``authorizerd features``: show and raise the metadata.version of a log.

The level decides which Kafka release's rules judge the log's ACLs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from immutables import Map

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.hosts import HostKind, get_kind
from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.acl.releases import releases_at, rules_for
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.configuration_file import read_log_directory
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_directory_arguments, add_text
from authorizerd.cli.log.format import metadata_version
from authorizerd.cli.log.stopped_log import StoppedLog
from authorizerd.daemon.sources.own_log_directory import claim_log_directory
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_NAMES
from authorizerd.metadata.lock import locked
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.metadata.storage import DISK

ACLS_NAMED_MAX: Final = 20
SEGMENT_BYTES_MAX: Final = 2**31
_UNKNOWN: Final = "it is not known whether the level was raised: run the command again"


def name_metadata_version(level: int) -> str:
    return f"{METADATA_VERSION_NAMES.get(level, 'level')} ({level})"


def add_features_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "action",
        choices=("describe", "upgrade"),
        help="describe: show the level, even of a log in use; upgrade: raise it while the daemon "
        "is stopped",
    )
    text = (
        "the metadata.version to upgrade to, such as 4.4-IV2. Kafka 4.3 cannot read a log "
        "with a higher level than 4.3-IV0"
    )
    add_text(parser, "--metadata", "VERSION", text, type=metadata_version)
    add_directory_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.action == "upgrade") != (arguments.metadata is not None):
        arguments.refuse("expected --metadata VERSION with upgrade, not with describe")
    log_dir = read_log_directory(arguments).path
    if arguments.action == "describe":
        _describe(log_dir)
        return 0
    MetadataLog.open(log_dir, DISK)  # check this before locking, which creates the lock file
    with locked(log_dir):
        _upgrade(log_dir, arguments.metadata)
    return 0


def _describe(log_dir: Path) -> None:
    replay = StoppedLog(log_dir, node_id=0).replay  # nothing is written
    print(f"{METADATA_VERSION_FEATURE}: {name_metadata_version(replay.metadata_version)}")
    found = judge_release(ClusterImage(features=Map(replay.features)), Evidence.OWN_LOG)
    print(f"A daemon that owns this log judges by the rules of Kafka {found.rules}.")


def _upgrade(log_dir: Path, level: int) -> None:
    properties = read_meta_properties(log_dir, DISK)
    if properties is None:
        raise CommandError(
            f"{log_dir}: expected meta.properties: start the daemon once, and stop it"
        )
    claim_log_directory(log_dir, node_id=properties.node_id, storage=DISK)
    log = StoppedLog(log_dir, properties.node_id, SEGMENT_BYTES_MAX)
    before = log.replay.metadata_version
    if level < before:
        raise CommandError(
            f"--metadata: expected at least {name_metadata_version(before)}, the level of the log,"
            f" found {name_metadata_version(level)}"
        )
    if level == before:
        print(f"The log has {name_metadata_version(level)} already.")
        return
    raised = FeatureLevel(METADATA_VERSION_FEATURE, level)
    log.append([[raised]], _UNKNOWN, nothing="the level is unchanged", unknown=_UNKNOWN)
    print(f"{log_dir}: {name_metadata_version(before)} is now {name_metadata_version(level)}.")
    _report_ranges(log.snapshot, before, level)


def _report_ranges(snapshot: AclSnapshot, before: int, after: int) -> None:
    """Print the ACLs that may have a different meaning at the new level."""
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
