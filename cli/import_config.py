"""``authorizerd import-config``: convert a broker's server.properties for a follower.

**Invariant:** secrets are written only to a new file of mode 0600, never to standard output, as
lines or as JSON.

Exit codes: 0 the daemon can start with the configuration, 1 a fault, 3 the configuration lacks
something that standard error or the JSON document names.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from authorizerd.cli.configuration_file import read_configuration_text
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_file, add_json_argument, add_text
from authorizerd.cli.follower_file import FollowerFile, import_broker
from authorizerd.cli.output import print_document
from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.hints import find_hints
from authorizerd.config.keys import find_meant_key
from authorizerd.config.properties import Property, parse_properties
from authorizerd.config.providers import find_providers
from authorizerd.management.formats.unread import find_placeholder
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import read_meta_properties

EXIT_INCOMPLETE: Final = 3
FILE_MODE: Final = 0o600
_UNKNOWN: Final = "the broker sets it to a value that is not known here: add it"
LOG_DIR: Final = "/var/lib/authorizerd/copy"


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    text = "the server.properties of a broker or controller of the cluster to follow"
    add_text(parser, "broker", "BROKER_SERVER_PROPERTIES", text, type=Path)
    text = (
        "write to this new file, including secrets, readable only by its owner (default: print the "
        "configuration without secrets)"
    )
    add_file(parser, "--output", text)
    text = "node.id of the daemon; must differ from those of the cluster's nodes (default: 1000000)"
    add_text(parser, "--node-id", "ID", text, type=int)
    text = "directory of the daemon's copy of the cluster's log (default: %(default)s)"
    add_text(parser, "--log-dir", "DIRECTORY", text, default=LOG_DIR)
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    source = str(arguments.broker)
    properties = parse_properties(read_configuration_text(arguments.broker, ""), source=source)
    try:
        made = import_broker(
            properties,
            source=source,
            node_id=arguments.node_id,
            log_dir=arguments.log_dir,
            cluster_id=_find_cluster_id(properties),
        )
    except InvalidValueError as error:
        raise CommandError(f"{source}: {error}") from None
    output: Path | None = arguments.output
    if output is not None:
        _write(output, _to_ascii(made.write(with_secrets=True)))
    warnings = list(_find_warnings(properties, made))
    faults = _find_faults(made, str(output or "the configuration above"))
    if arguments.json:
        print_document(_make_document(made, output, warnings, faults))
    else:
        _print_lines(made, output, warnings, faults)
    return EXIT_INCOMPLETE if faults else 0


def _make_document(
    made: FollowerFile,
    output: Path | None,
    warnings: Sequence[str],
    faults: Sequence[ConfigurationError],
) -> dict[str, object]:
    return {
        "output": None if output is None else str(output),
        "values": {line.key: line.value for line in made.lines if not line.is_secret},
        "secrets": made.secrets,
        "notes": made.notes,
        "left_out": sorted(made.left_out),
        "warnings": warnings,
        "changes_before_use": [{"key": fault.key, "reason": fault.reason} for fault in faults],
    }


def _print_lines(
    made: FollowerFile,
    output: Path | None,
    warnings: Sequence[str],
    faults: Sequence[ConfigurationError],
) -> None:
    if output is None:
        sys.stdout.write(_to_ascii(made.write(with_secrets=False)))
        for key in made.secrets:
            _say(f"{key} is a secret, and is not printed: use --output FILE to write it to a file")
    else:
        _say(f"wrote {output}: check it with authorizerd doctor --config")
    for warning in warnings:
        _say(f"warning: {warning}")
    for fault in faults:
        _say(f"change before use: {fault.key}: {fault.reason}")


def _find_cluster_id(properties: Mapping[str, Property]) -> str | None:
    """Return the cluster's id from the broker's log directory, None if this user cannot read it."""
    for name in ("metadata.log.dir", "log.dirs", "log.dir"):
        if name in properties:
            log_dir = Path(properties[name].value.partition(",")[0].strip())
            try:
                found = read_meta_properties(log_dir)
            except LogDirectoryError:
                return None
            return None if found is None else found.cluster_id
    return None


def _find_warnings(properties: Mapping[str, Property], made: FollowerFile) -> Iterator[str]:
    """Yield warnings about probable mistakes in the broker's file."""
    for key in made.left_out:
        meant = find_meant_key(key)
        if meant is not None:
            yield f"left out {key}, which Kafka ignores too: did you mean {meant}?"
    for line in made.lines:
        found = None if find_providers(line.value) else find_placeholder(line.value)
        if found is not None and not line.is_secret:
            yield f"{line.key} has the placeholder {found}, which nothing replaces: write the value"
    yield from find_hints({key: entry.value for key, entry in properties.items()})


def _find_faults(made: FollowerFile, source: str) -> list[ConfigurationError]:
    faults = [ConfigurationError(source, None, key, _UNKNOWN) for key in made.unknown]
    try:
        parse(_to_ascii(made.write(with_secrets=True)), source=source)
    except ConfigurationError as error:
        return [*error.faults, *faults]
    return faults


def _write(path: Path, text: str) -> None:
    try:
        # Create a new file: an existing one could be readable by others, or a link to a different
        # file.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, FILE_MODE)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except FileExistsError:
        raise CommandError(f"--output: {path}: exists: name a new file, or remove it") from None
    except OSError as error:
        raise CommandError(f"--output: {path}: {error.strerror or error}") from error


def _to_ascii(text: str) -> str:
    """Return the text in ASCII. Only comments can contain other characters."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _say(text: str) -> None:
    sys.stderr.write(f"authorizerd: {_to_ascii(text)}\n")
