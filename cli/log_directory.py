"""The flags of commands that need the directory of a log, and nothing else of a source of ACLs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from authorizerd.cli.configuration_file import add_config_arguments, read_configuration
from authorizerd.config.configuration import Configuration


class LogDirectory(NamedTuple):
    """A log directory, and the configuration that names it, if one was given."""

    path: Path
    configuration: Configuration | None


def add_directory_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--log-dir``, ``--config`` and ``--override``. ``read_log_directory`` reads them."""
    advice = "this command reads and writes files where the log is: use --config or --log-dir there"
    parser.set_defaults(refuse=parser.error, advice={"--bootstrap-server": advice})
    group = parser.add_argument_group("where the log is: one of --log-dir and --config")
    group.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="the log directory, which contains __cluster_metadata-0",
    )
    add_config_arguments(group, required=False)


def read_log_directory(arguments: argparse.Namespace) -> LogDirectory:
    """Return the directory that the flags name. Invalid flags end the command with exit code 2.

    Raises:
        StartError, ConfigurationError: the configuration is unusable.
    """
    log_dir: Path | None = arguments.log_dir
    if (log_dir is None) == (arguments.config is None):
        found = "neither" if log_dir is None else "both"
        arguments.refuse(f"expected either --log-dir DIR or --config FILE, found {found}")
    if arguments.config is None:
        if arguments.override:
            arguments.refuse("--override: expected --config as well")
        assert log_dir is not None, "one is given"
        return LogDirectory(log_dir, None)
    configuration = read_configuration(arguments.config, arguments.override)
    return LogDirectory(Path(configuration.metadata_log_dir), configuration)
