"""Read the configuration's file, and find the log directory that it or a flag names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.errors import StartError

CONFIGURATION_BYTES_MAX: Final = 1024 * 1024
"""A larger file would take memory and delay decisions at every reload."""


def read_configuration(path: Path, overrides: Sequence[str]) -> Configuration:
    return parse(read_configuration_text(path), source=str(path), overrides=overrides)


def read_configuration_text(path: Path, name: str = "--config: ") -> str:
    """Return the file's text, decoded as Kafka decodes it."""
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


class LogDirectory(NamedTuple):
    """A log directory, and the configuration that names it, if one was given."""

    path: Path
    configuration: Configuration | None


def read_log_directory(arguments: argparse.Namespace) -> LogDirectory:
    """Return the directory that ``flags.add_directory_arguments`` names.

    Invalid flags end the command with exit code 2.
    """
    log_dir: Path | None = arguments.log_dir
    if (log_dir is None) == (arguments.config is None):
        found = "neither" if log_dir is None else "both"
        arguments.refuse(f"expected either --log-dir DIR or --config FILE, found {found}")
    if log_dir is not None:
        if arguments.override:
            arguments.refuse("--override: expected --config as well")
        return LogDirectory(log_dir, None)
    configuration = read_configuration(arguments.config, arguments.override)
    return LogDirectory(Path(configuration.metadata_log_dir), configuration)
