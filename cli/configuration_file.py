"""Read the configuration's file, and add the flags that name it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from authorizerd.cli.profile import HELP
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.errors import StartError

CONFIGURATION_BYTES_MAX: Final = 1024 * 1024
"""A larger file would take memory, and delay decisions at every reload."""


def add_config_arguments(parser: argparse._ActionsContainer, *, required: bool = True) -> None:
    """Add ``--config`` and ``--override`` to a parser, or to a group of its arguments."""
    parser.add_argument(
        "--config",
        required=required,
        type=Path,
        metavar="FILE",
        help="the configuration: a server.properties file",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a key, with precedence over the file; may be repeated",
    )


def add_log_dir_argument(parser: argparse._ActionsContainer) -> None:
    """Add ``--log-dir``, for commands that also have ``--config``."""
    parser.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="a log directory, which contains __cluster_metadata-0, or a .checkpoint file; "
        "with --config, instead of the log directory of that configuration",
    )


def add_broker_arguments(parser: argparse._ActionsContainer, rights: str) -> None:
    """Add ``--bootstrap-server`` and ``--command-config``.

    Args:
        rights: a sentence about the rights that the user needs.
    """
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="ask the brokers of a Kafka cluster, or a daemon; separate several with commas. "
        f"{rights}. {HELP}",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="with --bootstrap-server: a properties file with Kafka's client keys for the log-in "
        "and TLS",
    )


def read_configuration(path: Path, overrides: Sequence[str]) -> Configuration:
    """Return the configuration; blocks on the file.

    Raises:
        StartError: the file cannot be read.
        ConfigurationError: the configuration is invalid.
    """
    return parse(read_configuration_text(path), source=str(path), overrides=overrides)


def read_configuration_text(path: Path, name: str = "--config: ") -> str:
    """Return the file's text, decoded as Kafka decodes it.

    Args:
        name: of the argument that names the file, for errors.

    Raises:
        StartError: the file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(CONFIGURATION_BYTES_MAX + 1)
    except OSError as error:
        raise StartError(f"{name}{path}: {error.strerror or error}") from error
    if len(data) > CONFIGURATION_BYTES_MAX:
        raise StartError(
            f"{name}{path}: expected at most {CONFIGURATION_BYTES_MAX} bytes, found more"
        )
    return data.decode("iso-8859-1")
