"""``authorizerd token``: create a token for a caller of a decision port.

**Invariant:** the token is printed once, on standard output, and never stored; the file gets only
its hash.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path
from typing import Final

from authorizerd.acl.surprises import find_principal_surprises
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import add_file, add_json_argument, add_text
from authorizerd.cli.output import print_document
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.tokens import SECRET_BYTES, new_token, parse_tokens
from authorizerd.daemon.decisions.token_file import read_tokens

FILE_MODE: Final = 0o644
"""The mode of a new file: everyone may read it, because it contains only hashes."""

CALLER_TYPE: Final = "Service"
"""The type of callers' principals. No Kafka client has it: clients have ``User``."""
_ID_BYTES: Final = 6


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    text = (
        "the caller that will use the token: rest-bridge means the principal"
        f" {CALLER_TYPE}:rest-bridge, which no client of Kafka has; or give Type:name"
    )
    add_text(parser, "--principal", "NAME", text, required=True)
    parser.add_argument("--id", help="the token's id (default: a random one)")
    text = "append the token's line to this tokens file (default: print the line)"
    add_file(parser, "--append", text)
    add_json_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    token_id: str = arguments.id or secrets.token_hex(_ID_BYTES)
    principal: str = arguments.principal
    if principal and ":" not in principal:
        principal = f"{CALLER_TYPE}:{principal}"
    try:
        token, line = new_token(token_id, principal, secrets.token_bytes(SECRET_BYTES))
    except InvalidValueError as error:
        raise CommandError(f"token: {error}") from None
    if arguments.append is not None:
        _append(arguments.append, line)
    for text in find_principal_surprises(principal):
        sys.stderr.write(f"authorizerd: warning: {escape_unprintable(text)}\n")
    if arguments.json:
        print_document({"token": token, "id": token_id, "line": line})
        return 0
    sys.stdout.write(f"{token}\n")
    if arguments.append is None:
        sys.stdout.write(f"{line}\n")
    return 0


def _append(path: Path, line: str) -> None:
    """Append ``line``, unless that would make the file invalid."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        with open(descriptor, "rb+", buffering=0) as file:
            read_tokens(str(path))  # this also rejects a world-writable file
            before = file.read()
            separator = b"\n" if before and not before.endswith(b"\n") else b""
            addition = separator + line.encode() + b"\n"
            parse_tokens((before + addition).decode(), source=str(path))
            file.write(addition)
            os.fsync(file.fileno())
    except OSError as error:
        raise CommandError(f"--append: {path}: {error.strerror or error}") from error
