"""The commands that run as jobs, for ``authorizerd replay`` and for the Spark application.

Each has a module ``options``, with ``add_arguments`` and ``make_plan``, and a module ``job``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from authorizerd.cli.program.command_parser import CommandParser, LazyParser
from authorizerd.cli.program.flags import add_switch, add_value
from authorizerd.replay.options import parse_path

JOBS: Final = {
    "ingest": "convert audit logs into events, which the other commands read",
    "whatif": "show which recorded requests other ACLs would newly deny or allow",
    "usage": "find ACLs that no recorded request used, and suggest narrower ones",
    "load": "send the recorded questions to a running daemon, and measure its answers",
}
"""The help of each command."""

_OUT_OF_INGEST: Final = "directory of the table, which is created, or extended by new inputs"
_OUT: Final = "directory for the results; must be empty without --overwrite"


def new_job_parser(
    prog: str, description: str, add_arguments: Callable[[str, argparse.ArgumentParser], None]
) -> tuple[CommandParser, Any]:
    """Return a parser with the jobs as its commands, and the object that adds more commands.

    Args:
        add_arguments: adds the arguments of the named job, once it is chosen.
    """
    parser = CommandParser(prog=prog, description=description, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=LazyParser)
    for name, about in JOBS.items():
        commands.add_parser(
            name, help=about, allow_abbrev=False, add_arguments=partial(add_arguments, name)
        )
    return parser, commands


def add_job_arguments(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the job's arguments; ``make_plan`` and ``refuse`` become values of the result."""
    options = import_module(f"authorizerd.replay.{name}.options")
    parser.set_defaults(make_plan=options.make_plan, refuse=parser.error)
    options.add_arguments(parser)
    text = _OUT_OF_INGEST if name == "ingest" else _OUT
    add_value(parser, "--out", parse_path, "DIR", text, required=True)
    text = "replace the command's earlier results in --out; other files stay"
    add_switch(parser, "--overwrite", text)
