"""The flags of ``authorizerd verify --probe``, besides those that ``verify`` has."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from authorizerd.acl.model import ResourceType
from authorizerd.cli import flags, question_words
from authorizerd.cli.acl_source import SourceRequest
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import warn
from authorizerd.cli.question_words import Resource
from authorizerd.config.endpoints import is_loopback_host

RATE: Final = 5.0
RESOURCES_MAX: Final = 1_000

_FILE: Final = "@"
_KINDS: Final = {"topics": ResourceType.TOPIC, "groups": ResourceType.GROUP}
_PLACES: Final = ("log_dir", "acls", "config")
_OF_DAEMON: Final = ("token_file", "cafile")
_OWN: Final = ("principal", "host", "daemon", *_OF_DAEMON, *_KINDS)
"""The arguments that have no effect without ``--probe``."""


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of a probe.

    Attributes:
        source: where the ACLs are; None to compare with ``daemon``.
    """

    bootstrap_server: str
    command_config: str | None = None
    principal: str
    host: str
    resources: tuple[Resource, ...] = ()
    max_resources: int = RESOURCES_MAX
    rate: float = RATE
    window: int
    max_not_judged: float
    json: bool = False
    daemon: str | None = None
    token: str | None = None
    cafile: str | None = None
    source: SourceRequest | None = None


def add_probe_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--probe`` and its flags to those of ``verify``."""
    group = parser.add_argument_group(
        "--probe",
        "Without audit logs: ask the brokers of --bootstrap-server what a client may do (KIP-430), "
        "and compare that with the ACLs of --log-dir, --acls or --config, or with a daemon. "
        "--command-config is that of an unprivileged client. Nothing is changed.",
    )
    flags.add_switch(group, "--probe", "ask a cluster instead of reading --logs")
    text = f"the client as the brokers see it: {question_words.PRINCIPAL_HELP}"
    flags.add_text(group, "--principal", None, text)
    flags.add_text(group, "--host", "ADDRESS", "the client's address as the brokers see it")
    text = "compare with this daemon: http://HOST:PORT or https://HOST:PORT of its decision port"
    flags.add_text(group, "--daemon", "URL", text)
    flags.add_file(group, "--token-file", "with --daemon: a file whose first line is the token")
    flags.add_text(group, "--cafile", "FILE", "with --daemon: the CAs to trust, in PEM")
    for what in _KINDS:
        text = f"also ask about these {what}; @FILE is a file with a name on each line"
        flags.add_text(group, f"--{what}", "NAME", text, action="extend", nargs="+", default=[])
    text = f"the maximum number of topics and groups to ask about; default {RESOURCES_MAX:,}"
    flags.add_text(group, "--max-resources", "N", text, type=int, default=RESOURCES_MAX)
    text = f"the maximum number of requests to brokers in a second; default {RATE:g}"
    flags.add_text(group, "--rate", "R", text, type=float, default=RATE)


def check_unused(parsed: argparse.Namespace) -> None:
    """End a command without ``--probe`` that has its flags, or has neither it nor ``--logs``."""
    for name in _OWN:
        if getattr(parsed, name):
            parsed.refuse(f"--{name.replace('_', '-')}: expected --probe as well")
    if not parsed.logs:
        parsed.refuse("expected --logs FILE, or --probe")


def read_probe(parsed: argparse.Namespace) -> ProbeRequest:
    """Return the request. Invalid flags end the command with exit code 2. Blocks on files.

    Raises:
        CommandError: a file cannot be read.
    """
    refuse: flags.Refuse = parsed.refuse
    for name in ("logs", "broker_config"):
        if getattr(parsed, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            refuse(f"{flag}: expected either {flag} or --probe, found both")
    for name in ("bootstrap_server", "principal", "host"):
        if getattr(parsed, name) is None:
            refuse(f"--probe: expected --{name.replace('_', '-')} as well")
    has_acls = any(getattr(parsed, name) is not None for name in _PLACES)
    if (parsed.daemon is None) != has_acls:
        refuse("--probe: expected either --daemon, or one of --log-dir, --acls and --config")
    if parsed.daemon is None and any(getattr(parsed, name) for name in _OF_DAEMON):
        refuse("--token-file and --cafile: expected --daemon as well")
    if parsed.daemon is not None and not parsed.daemon.startswith(("http://", "https://")):
        refuse(f"--daemon: expected http://HOST:PORT or https://HOST:PORT, found {parsed.daemon!r}")
    _warn_of_clear_token(parsed)
    for name in ("max_resources", "rate"):
        if not 0 < getattr(parsed, name) < math.inf:
            refuse(f"--{name.replace('_', '-')}: expected a number above 0")
    # Those flags name the cluster, not the place of the ACLs.
    nowhere = {"bootstrap_server": None, "command_config": None}
    source = flags.read_request(SourceRequest, parsed, **nowhere)
    return flags.read_request(
        ProbeRequest,
        parsed,
        principal=question_words.read_one_principal(parsed.principal, "--principal", refuse),
        host=question_words.read_host(parsed.host, refuse),
        resources=tuple(_read_names(parsed)),
        token=None if parsed.token_file is None else _read_lines(parsed.token_file)[0].strip(),
        source=source if has_acls else None,
    )


def _warn_of_clear_token(parsed: argparse.Namespace) -> None:
    url = urlsplit(parsed.daemon or "")
    is_clear = parsed.token_file is not None and url.scheme == "http"
    if is_clear and not is_loopback_host(url.hostname or ""):
        warn(f"--daemon: the token travels in the clear to {url.hostname}: use https://")


def _read_names(parsed: argparse.Namespace) -> Iterator[Resource]:
    for flag, kind in _KINDS.items():
        for word in getattr(parsed, flag):
            names = _read_lines(Path(word[1:])) if word.startswith(_FILE) else [word]
            yield from ((kind, name) for name in names)


def _read_lines(path: Path) -> list[str]:
    """Return the lines of a file that are not empty; there is at least one."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}") from error
    found = [line for line in lines if line]
    if not found:
        raise CommandError(f"{path}: expected a line, found none")
    return found
