"""``authorizerd format``: create an empty log directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_config_arguments, add_json_argument, add_list
from authorizerd.cli.log.scram import read_scram_arguments
from authorizerd.cli.output import print_document, warn
from authorizerd.cli.program.ending import saying
from authorizerd.config.configuration import Configuration
from authorizerd.config.values import PLAIN
from authorizerd.daemon.sources.own_log_directory import format_log_directory
from authorizerd.image.changes import CredentialAdded
from authorizerd.image.features import METADATA_VERSION_KNOWN, METADATA_VERSION_NAMES
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_other_names
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.scram import ScramMechanism

METADATA_VERSIONS: Final = {METADATA_VERSION_NAMES[level]: level for level in (30, 32, 33)} | {
    "4.3": 30,
    "4.4": METADATA_VERSION_KNOWN,
}
"""Levels by their names, as kafka-storage and kafka-features read them. No release has 4.4-IV0."""


def metadata_version(text: str) -> int:
    """Return the level of this name.

    Raises:
        ArgumentTypeError: there is no such level, or the daemon does not write it.
    """
    level = METADATA_VERSIONS.get(text)
    if level is None:
        names = ", ".join(METADATA_VERSIONS)
        raise argparse.ArgumentTypeError(f"expected one of {names}, found {text!r}")
    return level


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run)
    add_config_arguments(parser)
    parser.add_argument("--cluster-id", help="the cluster's id (default: a random one)")
    text = "add a user's SCRAM credential, in kafka-storage's syntax; may be repeated"
    add_list(parser, "--add-scram", "'MECHANISM=[name=USER,password=PASSWORD]'", text)
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
    """Format the directory that the configuration names, and print the new cluster's id."""
    credentials = read_scram_arguments(arguments.add_scram)
    configuration = read_configuration(arguments.config, arguments.override)
    if configuration.follow is not None:
        raise CommandError(
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
        warn(
            f"warning: {log_dir}: expected an empty directory, found {others[0]!r}: if log.dirs is "
            f"wrong, remove meta.properties and {METADATA_TOPIC_DIRECTORY} there"
        )
    for listener in _listeners_without_users(configuration, credentials):
        warn(
            f"warning: nobody can log in at {listener}: it offers only SCRAM, and the log has no"
            f" user for it. Remove {log_dir}, and format it with --add-scram, or enable PLAIN, too."
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
