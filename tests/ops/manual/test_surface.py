"""What is read from a parser."""

from __future__ import annotations

import argparse

from ops.manual.surface import Command, Option, commands_of

HELP = Option(names=("-h", "--help"), value="", help="show this help message and exit")


def test_a_parser_is_read_with_all_below_it() -> None:
    """Flags, values, choices, defaults, operands; a command without help is left out."""
    parser = argparse.ArgumentParser(description="Does it.")
    commands = parser.add_subparsers()
    commands.add_parser("hidden")
    run = commands.add_parser("run", help="run it")
    run.add_argument("--mode", choices=("a", "b"), default="a", help="%(default)s without it")
    run.add_argument("-x", "--to-file", required=True)
    run.add_argument("--yes", action="store_true")
    run.add_argument("place", help="where")
    assert list(commands_of(parser, ("it",))) == [
        Command(words=("it",), help="Does it.", options=(HELP,), commands=("run",)),
        Command(
            words=("it", "run"),
            help="run it",
            options=(
                HELP,
                Option(names=("--mode",), value="a|b", help="a without it", choices=("a", "b")),
                Option(names=("-x", "--to-file"), value="TO_FILE", help="", is_required=True),
                Option(names=("--yes",), value="", help=""),
                Option(names=(), value="PLACE", help="where", is_required=True),
            ),
        ),
    ]
