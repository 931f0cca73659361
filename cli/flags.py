"""Flags that several commands have, and the conversion of flags to requests.

**Invariant:** only a command's own module sees argparse's namespace. It converts the namespace to a
frozen request, whose fields have the names of the flags.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec

from authorizerd.cli.profile import HELP
from authorizerd.cli.program.flags import Flags as Flags  # for commands, like all below
from authorizerd.cli.program.flags import add_switch as add_switch

Request = TypeVar("Request", bound=msgspec.Struct)
Refuse: TypeAlias = Callable[[str], NoReturn]
"""Ends the command because of its arguments, like ``ArgumentParser.error``."""


def read_request(kind: type[Request], given: argparse.Namespace, **others: Any) -> Request:  # noqa: ANN401 - fields
    """Return the request for the flags.

    Args:
        others: fields that are not flags. Fields that are neither flags nor in ``others`` keep
            their defaults.
    """
    flags = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(given).items()
        if name in kind.__struct_fields__
    }
    return kind(**{**flags, **others})


def is_utf8(text: str) -> bool:
    """Return True if a word was valid UTF-8: Python decodes other bytes as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def find_expanded(names: Iterable[str]) -> str | None:
    """Return a warning if one of the names is also the only file here, else None. Blocks.

    A shell expands ``--topic *`` to ``--topic`` and the names of all files in the directory. If
    there are several, the words after the first one give it away.
    """
    with os.scandir() as entries:
        visible = (entry.name for entry in entries if not entry.name.startswith("."))
        first, second = next(visible, None), next(visible, None)
    if first is None or second is not None or first not in names:
        return None
    return f"'{first}' is also the only file in this directory: if the shell expanded a *, quote it"


def add_text(parser: Flags, flag: str, metavar: str | None, help: str, **settings: Any) -> None:  # noqa: ANN401 - as argparse
    """Add a flag with a text. Without the flag, it is None unless ``settings`` has a default."""
    parser.add_argument(flag, metavar=metavar, help=help, **settings)


def add_file(parser: Flags, flag: str, help: str, metavar: str = "FILE") -> None:
    """Add a flag with a path, which is None without the flag."""
    parser.add_argument(flag, type=Path, metavar=metavar, help=help)


def add_list(parser: Flags, flag: str, metavar: str, help: str, **settings: Any) -> None:  # noqa: ANN401 - as argparse
    parser.add_argument(flag, action="append", default=[], metavar=metavar, help=help, **settings)


def add_json_argument(parser: Flags) -> None:
    add_switch(parser, "--json", "print one JSON document instead of lines")


def add_config_arguments(parser: Flags, *, required: bool = True) -> None:
    parser.add_argument(
        "--config",
        required=required,
        type=Path,
        metavar="FILE",
        help="the configuration: a server.properties file",
    )
    text = "set a key, overriding the file; may be repeated"
    add_list(parser, "--override", "KEY=VALUE", text)


def add_log_dir_argument(parser: Flags) -> None:
    """Add ``--log-dir``, for commands that also have ``--config``."""
    text = (
        "a log directory, which contains __cluster_metadata-0, or a .checkpoint file; "
        "with --config, instead of the log directory of that configuration"
    )
    add_file(parser, "--log-dir", text, "DIR")


def add_directory_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``configuration_file.read_log_directory``, for a command that reads the
    log's files."""
    advice = "this command reads and writes files where the log is: use --config or --log-dir there"
    parser.set_defaults(refuse=parser.error, advice={"--bootstrap-server": advice})
    group = parser.add_argument_group("where the log is: one of --log-dir and --config")
    text = "the log directory, which contains __cluster_metadata-0"
    add_file(group, "--log-dir", text, "DIR")
    add_config_arguments(group, required=False)


def add_broker_arguments(
    parser: Flags, rights: str, config_use: str = "with --bootstrap-server"
) -> None:
    text = "ask the brokers of a Kafka cluster, or a daemon; separate several with commas. "
    add_text(parser, "--bootstrap-server", "HOST:PORT", f"{text}{rights}. {HELP}")
    text = f"{config_use}: a file with Kafka's client keys for credentials and TLS"
    add_text(parser, "--command-config", "FILE", text)
