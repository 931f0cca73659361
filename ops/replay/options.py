"""Parse the values of options that several commands have: numbers, paths, URIs, and properties.

**Invariant:** a path without a scheme refers to this machine only with a local master. It is then
made absolute, since Spark would resolve it against the working directory of its own processes.
With any other master the path stays unchanged, and the cluster's default file system resolves it.
"""

from __future__ import annotations

import argparse
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from authorizerd.acl.text.printable import is_utf_8
from authorizerd.replay.errors import ReplayError

NAMES_MAX_LIMIT: Final = 100_000

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_GLOB: Final = re.compile(r"[*?\[{]")
_CLIENT_KEYS: Final = ("security.", "sasl.", "ssl.")
"""Prefixes of the keys that are used; as with ``acls --command-config``, others are ignored."""
_JAAS: Final = "sasl.jaas.config"


class PathError(ReplayError):
    """A path that a command cannot use; the text names the path."""


def _resolve(text: str, *, is_local: bool) -> str:
    """Return the path for the job: absolute on this machine, unchanged for a cluster."""
    return str(Path(text).absolute()) if is_local and not is_uri(text) else text


def is_uri(text: str) -> bool:
    """Return True if ``text`` begins with a scheme."""
    return _SCHEME.match(text) is not None


def resolve_input(text: str, *, is_local: bool) -> str:
    """Return the path of an input for the job.

    Raises:
        PathError: the path is on this machine, is not a glob, and is missing or unreadable.
    """
    path = _resolve(text, is_local=is_local)
    if is_local and not is_uri(path) and not _GLOB.search(path):
        try:
            Path(path).stat()
        except OSError as error:
            raise PathError(f"{text}: {(error.strerror or 'unreadable').lower()}") from error
        if not os.access(path, os.R_OK):
            raise PathError(f"{text}: permission denied")
    return path


def resolve_output(text: str, *, is_local: bool, overwrite: bool) -> str:
    """Return the path of the output directory for the job.

    The job checks again, for file systems that this machine cannot see.

    Raises:
        PathError: the path is on this machine, and is a file, a directory that is not empty, or a
            place where nothing can be written.
    """
    path = _resolve(text, is_local=is_local)
    if is_local and not is_uri(path):
        _check_writable(text, Path(path))
        if not overwrite and os.path.isdir(path) and os.listdir(path):
            raise PathError(f"--out: {text}: not empty; --overwrite replaces its results")
    return path


def _check_writable(text: str, path: Path) -> None:
    """Check the directory, or its closest existing parent."""
    found = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    place = text if found == path else str(found)
    if not os.path.isdir(found):
        raise PathError(f"--out: {place}: not a directory")
    wanted = os.W_OK | os.X_OK | (os.R_OK if found == path else 0)
    if not os.access(found, wanted):
        raise PathError(
            f"--out: {place}: no permission to write: choose another directory, or allow it"
        )


def refuse(parsed: argparse.Namespace, text: str) -> NoReturn:
    """End the command with exit code 2: its options contradict each other."""
    parsed.refuse(text)
    raise AssertionError(text)


def parse_path(text: str) -> str:
    """Parse a path or a URI. An empty path would name the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found an empty text")
    if not is_utf_8(text):
        raise argparse.ArgumentTypeError(f"expected a path in UTF-8, found {text!a}")
    return text


def parse_file(text: str) -> Path:
    """Parse a path on this machine."""
    return Path(parse_path(text))


def parse_names_max(text: str) -> int:
    """Parse a maximum number of names, from 0 to ``NAMES_MAX_LIMIT``."""
    with suppress(ValueError):
        number = float(text)
        if number.is_integer() and 0 <= number <= NAMES_MAX_LIMIT:
            return int(number)
    expected = f"a whole number from 0 to {NAMES_MAX_LIMIT}"
    raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")


def read_client_settings(command_config: Path | None) -> dict[str, str]:
    """Return the properties for TLS and authentication; without a file, there are none.

    Raises:
        PathError: the file cannot be read, or is not a properties file.
    """
    # Imported late: `authorizerd replay --help` loads no library.
    from authorizerd.config.errors import ConfigurationError, InvalidValueError
    from authorizerd.config.jaas import parse_login
    from authorizerd.config.properties import parse_properties
    from authorizerd.config.providers import resolve_placeholders

    if command_config is None:
        return {}
    try:
        text = command_config.read_text(encoding="iso-8859-1")
        properties = resolve_placeholders(parse_properties(text, source=str(command_config)))
    except OSError as error:
        raise PathError(f"--command-config: {command_config}: {error.strerror}") from error
    except ConfigurationError as error:
        raise PathError(f"--command-config: {error}") from error
    settings = {key: each.value for key, each in properties.items() if key.startswith(_CLIENT_KEYS)}
    if _JAAS in settings:
        # Java's own error would quote a word of the text, which may be the password.
        try:
            parse_login(settings[_JAAS])
        except InvalidValueError as error:
            raise PathError(f"--command-config: {command_config}: {_JAAS}: {error}") from None
    return settings
