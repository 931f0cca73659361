"""The options of ``replay load``."""

from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.cli.program.flags import add_value
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.checks import CHOICES, OPTIONS, check_plan
from authorizerd.replay.load.lanes.connection import TLS_FILES, new_context
from authorizerd.replay.options import parse_path, resolve_input, resolve_output
from authorizerd.replay.plans import LoadPlan

_DEFAULTS: Final = {each.name: each.default for each in msgspec.structs.fields(LoadPlan)}
_RECONNECT_S: Final = 30.0
_TLS: Final = (
    ("--cafile", "certificates of the CAs to trust; default: the system's"),
    ("--cert", "the certificate chain to present"),
    ("--key", "its key, without a password; default: in the file of --cert"),
)
_TLS_NOTE: Final = (
    "Files in PEM. On a cluster, the driver and each executor read them: name absolute paths that "
    "exist on every machine, or paths in an archive that --archives sends. Keys in an archive pass "
    "through Spark's file server."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay load``; each is stored under the name of its plan's field."""
    add_value(parser, "--events", parse_path, "DIR", "results of ingest", required=True)
    add_value(parser, "--token-file", parse_path, "FILE", "file whose first line is the token")
    for each in OPTIONS:
        default, settings = _DEFAULTS[each.field], dict[str, Any]()
        if default is msgspec.NODEFAULT:
            settings = {"required": True, "default": None}
        elif each.field == "reconnect_s":
            settings = {"nargs": "?", "const": _RECONNECT_S}
        parser.add_argument(
            f"--{each.flag}",
            dest=each.field,
            type=each.type,
            metavar=each.unit,
            choices=CHOICES.get(each.field),
            help=each.help + ("" if default in (None, "") or settings else "; default %(default)s"),
            **({"default": default} | settings),
        )
    tls = parser.add_argument_group("TLS", _TLS_NOTE)
    for option, text in _TLS:
        tls.add_argument(option, type=parse_path, metavar="FILE", help=text)
    parser.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "local", "spark"),
        help="run the lanes on this machine, or on Spark; default: auto, on Spark only with its "
        "options or with URIs",
    )
    parser.add_argument("--dry-run", action="store_true", help="plan the load, but send nothing")


def make_plan(parsed: argparse.Namespace, *, is_local: bool) -> LoadPlan:
    """Return the plan that the options describe.

    An unusable value ends the command, as argparse's own errors do.

    Raises:
        PathError: the events or a file do not exist, or the output directory is not empty.
    """
    if parsed.token_file is not None and parsed.only_print:
        parsed.refuse("--token-file: not with --print, which would leave the token in a file")
    fields = {name: value for name, value in vars(parsed).items() if name in _DEFAULTS}
    for name in ("events", *TLS_FILES):
        if fields[name] is not None:
            fields[name] = resolve_input(fields[name], is_local=is_local)
    fields["out"] = resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite)
    try:
        plan = LoadPlan(**fields, run_id=uuid.uuid4().hex, token=_token(parsed.token_file))
        check_plan(plan)
        if is_local:
            new_context(plan)
    except LoadError as error:
        parsed.refuse(str(error))
        raise
    return plan


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "expected UTF-8")
        raise LoadError(f"--token-file: {path}: {reason}") from None
    if not lines:
        raise LoadError(f"--token-file: {path}: empty")
    return lines[0].strip()
