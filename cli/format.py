"""``authorizerd format``: create an empty log directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from authorizerd.cli.configuration_file import add_config_arguments, read_configuration
from authorizerd.cli.questions.answers import add_json_argument, print_document
from authorizerd.cli.release_version import metadata_version
from authorizerd.cli.scram import read_scram_arguments
from authorizerd.config.configuration import Configuration
from authorizerd.config.ending import saying
from authorizerd.config.values import PLAIN
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.own_log_directory import format_log_directory
from authorizerd.image.changes import CredentialAdded
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_other_names
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.scram import ScramMechanism


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    add_config_arguments(parser)
    parser.add_argument("--cluster-id", help="the cluster's id (default: a random one)")
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="'MECHANISM=[name=USER,password=PASSWORD]'",
        help="add a user's SCRAM credential, in kafka-storage's syntax; may be repeated",
    )
    parser.add_argument(
        "--release-version",
        type=metadata_version,
        default="4.4-IV2",
        metavar="VERSION",
        help="the log's metadata.version: it decides by the rules of which Kafka release ACLs are"
        " judged; 4.3-IV0 for a log that Kafka 4.3 can read (default: %(default)s)",
    )
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Format the directory that the configuration names, and print the new cluster's id.

    Raises:
        StartError: a credential is invalid, or the configuration follows a cluster.
        ConfigurationError: the configuration is invalid.
        MetadataLogError: the directory is not empty, or cannot be written.
    """
    credentials = read_scram_arguments(arguments.add_scram)
    configuration = read_configuration(arguments.config, arguments.override)
    if configuration.follow is not None:
        raise StartError(
            "this configuration follows a cluster, whose log the daemon copies by itself: nothing"
            " to format"
        )
    log_dir = Path(configuration.metadata_log_dir)
    others = _find_others(log_dir)
    with saying(lambda: f"{log_dir} may be formatted or not: run the command again"):
        properties = format_log_directory(
            log_dir,
            cluster_id=arguments.cluster_id,
            node_id=configuration.node_id,
            storage=DISK,
            credentials=credentials,
            metadata_version=arguments.release_version,
        )
    if arguments.json:
        named = {"cluster_id": properties.cluster_id, "node_id": properties.node_id}
        print_document({"log_dir": str(log_dir), **named})
    else:
        print(f"Formatted {log_dir}: cluster {properties.cluster_id}, node {properties.node_id}")
    if others:
        print(
            f"authorizerd: warning: {log_dir}: expected an empty directory, found {others[0]!r}: "
            f"if log.dirs is wrong, remove meta.properties and {METADATA_TOPIC_DIRECTORY} there",
            file=sys.stderr,
        )
    for listener in _listeners_without_users(configuration, credentials):
        print(
            f"authorizerd: warning: nobody can log in at {listener}: it offers only SCRAM, and the"
            f" log has no user for it. Remove {log_dir}, and format it with --add-scram, or enable"
            " PLAIN, too.",
            file=sys.stderr,
        )
    return 0


def _find_others(log_dir: Path) -> list[str]:
    """Return the names in a directory without a log that are not those of a log, sorted."""
    try:
        return sorted(find_other_names(log_dir, DISK))
    except OSError:
        return []  # formatting it reports the error, or creates the directory


def _listeners_without_users(
    configuration: Configuration, credentials: Sequence[CredentialAdded]
) -> list[str]:
    """Return the listeners that offer only SCRAM, and only mechanisms without a user."""
    usable = {PLAIN, *(ScramMechanism(each.mechanism).text for each in credentials)}
    return [
        name
        for name, login in configuration.sasl_listeners.items()
        if usable.isdisjoint(login.mechanisms)
    ]
