"""``authorizerd format``: create an empty log directory, with SCRAM credentials.

    --add-scram 'SCRAM-SHA-256=[name=alice,password=alice-secret]'
    --add-scram 'SCRAM-SHA-512=[name=bob,iterations=8192,salt="MTIz",saltedpassword="NDU2"]'

**Invariant:** errors never show any part of a credential. A comma ends a value, so any part may be
the rest of a password with a comma.

Source: Kafka 4.3 ScramParser. Two checks are stricter than Kafka's: they reject an empty name, with
which nobody can log in, and an empty password, which breaks kafka-storage.
"""

from __future__ import annotations

import argparse
import binascii
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import (
    add_config_arguments,
    add_json_argument,
    add_list,
    add_text,
    is_utf8,
)
from authorizerd.cli.output import print_document, warn
from authorizerd.cli.program.ending import saying
from authorizerd.config.configuration import Configuration
from authorizerd.config.values import OAUTHBEARER, PLAIN
from authorizerd.daemon.sources.own_log_directory import format_log_directory
from authorizerd.image.changes import CredentialAdded
from authorizerd.image.features import METADATA_VERSION_KNOWN, METADATA_VERSION_NAMES
from authorizerd.metadata.bounded_file import read_stream
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_other_names
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records import scram

ITERATIONS: Final = 4096
"""The number of iterations if an argument does not set it."""

STANDARD_INPUT: Final = "-"

_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")
_MECHANISMS: Final = {mechanism.text: mechanism for mechanism in scram.ScramMechanism}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def read_scram_arguments(
    arguments: Sequence[str],
    new_salt: Callable[[], bytes] = lambda: scram.encode_salt(secrets.randbits(scram.SALT_BITS)),
) -> list[CredentialAdded]:
    """Return the credentials of all ``--add-scram`` arguments, in order."""
    credentials = []
    for number, argument in enumerate(arguments, 1):
        try:
            credentials.append(_credential(argument, new_salt))
        except ValueError as error:
            where = f" (number {number})" if len(arguments) > 1 else ""
            raise CommandError(f"--add-scram{where}: {error}") from None
    return credentials


def _credential(argument: str, new_salt: Callable[[], bytes]) -> CredentialAdded:
    mechanism, parts = _split(argument.strip())
    values = _values(parts)
    name = _required(values, "name")
    iterations = _iterations(values.get("iterations", str(ITERATIONS)), mechanism)
    if "password" not in values and "saltedpassword" not in values:
        raise ValueError("you must supply one of 'password' or 'saltedpassword'")
    if "password" not in values and "salt" not in values:
        raise ValueError("you must supply 'salt' with 'saltedpassword'")
    salt = _decoded(values, "salt") if "salt" in values else new_salt()
    if "password" in values:
        salted = scram.salt_password(mechanism, _required(values, "password"), salt, iterations)
    else:
        _required(values, "saltedpassword")
        salted = _decoded(values, "saltedpassword")
    return CredentialAdded(
        name, mechanism, scram.make_credential(mechanism, salted, salt, iterations)
    )


def _split(argument: str) -> tuple[scram.ScramMechanism, list[str]]:
    name, equals, configuration = argument.partition("=")
    if not equals:
        raise ValueError("expected '=' after the mechanism")
    mechanism = _MECHANISMS.get(name)
    if mechanism is None:
        raise ValueError(f"unknown mechanism: expected one of {', '.join(_MECHANISMS)}")
    if not configuration.startswith("["):
        raise ValueError("expected [ after the equals sign")
    if not configuration.endswith("]") or len(configuration) == 1:
        raise ValueError("expected ] at the end")
    # Java's split, which kafka-storage uses, drops empty parts at the end.
    return mechanism, configuration[1:-1].rstrip(",").split(",")


def _values(parts: Sequence[str]) -> dict[str, str]:
    """Return the values by key, without their quotes; the last value of a repeated key wins."""
    values: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"part {number} has no equals sign; a comma ends a value")
        if key not in _KEYS:
            raise ValueError(
                f"part {number} has an unknown key: expected one of {', '.join(_KEYS)}"
            )
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        values[key] = value[1:-1] if is_quoted else value
        if not is_utf8(values[key]):
            raise ValueError(f"'{key}' is not UTF-8")
    return values


def _required(values: dict[str, str], key: str) -> str:
    if not values.get(key):
        raise ValueError(f"'{key}' is empty" if key in values else f"you must supply '{key}'")
    return values[key]


def _iterations(text: str, mechanism: scram.ScramMechanism) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("'iterations' is not an integer")
    iterations = int(text)
    least, most = scram.ITERATIONS_MIN, scram.ITERATIONS_MAX
    if not least <= iterations <= most:
        raise ValueError(f"'iterations' has to be {least} to {most} for {mechanism.text}")
    return iterations


def _decoded(values: dict[str, str], key: str) -> bytes:
    """Return the decoded bytes of a base64 value; as in Java, its padding may be missing."""
    text = values[key]
    padded = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(padded.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError(f"'{key}' is not base64") from None


METADATA_VERSIONS: Final = {METADATA_VERSION_NAMES[level]: level for level in (30, 32, 33)} | {
    "4.3": 30,
    "4.4": METADATA_VERSION_KNOWN,
}
"""Levels by the names that kafka-storage and kafka-features accept. No release has 4.4-IV0."""


def metadata_version(text: str) -> int:
    level = METADATA_VERSIONS.get(text)
    if level is None:
        names = ", ".join(METADATA_VERSIONS)
        raise argparse.ArgumentTypeError(f"expected one of {names}, found {text!r}")
    return level


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    add_config_arguments(parser)
    parser.add_argument("--cluster-id", help="the cluster's id (default: a random one)")
    text = (
        "add a user's SCRAM credential, in the syntax of kafka-storage; may be repeated; with '-',"
        " read one from each line of standard input, because other users can see arguments"
    )
    add_list(parser, "--add-scram", "'MECHANISM=[name=USER,password=PASSWORD]'", text)
    text = (
        "the log's metadata.version: it decides which Kafka release's rules judge the"
        " ACLs; 4.3-IV0 for a log that Kafka 4.3 can read (default: %(default)s)"
    )
    add_text(parser, "--release-version", "VERSION", text, type=metadata_version, default="4.4-IV2")
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    credentials = read_scram_arguments(_read_piped(arguments.add_scram))
    configuration = read_configuration(arguments.config, arguments.override)
    if configuration.follow is not None:
        raise CommandError(
            "this configuration follows a cluster, whose log the daemon copies automatically: "
            "nothing to format"
        )
    log_dir = Path(configuration.metadata_log_dir)
    others = _find_others(log_dir)
    with saying(lambda: f"{log_dir} may or may not be formatted: run the command again"):
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
            f"warning: nobody can log in on {listener}: it offers only SCRAM, but the log has no "
            f"user for it. Remove {log_dir}, and format it with --add-scram, or also enable PLAIN."
        )
    return 0


def _read_piped(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, and the lines of standard input if one is ``-``. Blocks."""
    if STANDARD_INPUT not in arguments:
        return [*arguments]
    try:
        # Bytes that are not UTF-8 become surrogates, as in arguments: the reading refuses them.
        text = read_stream(sys.stdin.buffer).decode(errors="surrogateescape")
    except OSError as error:
        raise CommandError(f"--add-scram -: {error.strerror}") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise CommandError(
            "--add-scram -: expected a line such as MECHANISM=[name=USER,password=PASSWORD] on"
            " standard input, found none"
        )
    return [*(each for each in arguments if each != STANDARD_INPUT), *lines]


def _find_others(log_dir: Path) -> list[str]:
    """Return the sorted names of unrelated files in a directory that has no log yet."""
    try:
        return sorted(find_other_names(log_dir, DISK))
    except OSError:
        return []  # formatting it reports the error, or creates the directory


def _listeners_without_users(
    configuration: Configuration, credentials: Sequence[CredentialAdded]
) -> list[str]:
    """Return the listeners that offer only SCRAM, and only mechanisms without a user."""
    usable = {
        PLAIN,
        OAUTHBEARER,
        *(scram.ScramMechanism(credential.mechanism).text for credential in credentials),
    }
    return [
        name
        for name, login in configuration.sasl_listeners.items()
        if usable.isdisjoint(login.mechanisms)
    ]
