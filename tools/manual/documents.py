"""The manual page, and completion for bash, zsh and fish.

**Invariant:** completion runs no program. No shell executes any part of a help text, and troff
prints it literally.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import shtab
from argparse_manpage.manpage import Manpage

from tools.manual.command_tree import command_tree, offer_words

ROOT: Final = Path(__file__).parents[2]

COMPLETIONS: Final = {
    "bash": "/usr/share/bash-completion/completions/authorizerd",
    "zsh": "/usr/share/zsh/site-functions/_authorizerd",
    "fish": "/usr/share/fish/vendor_completions.d/authorizerd.fish",
}
"""The path at which a distribution would install each shell's file."""

_NOTE: Final = "# Written by `make install-files`. Install it as {}\n"
_LINE_WIDTH: Final = 100_000
"""Wide enough that argparse never breaks a text: a new line might begin with a troff request."""

_NAME: Final = "Apache Kafka's ACL authorizer as a daemon"
_SYNOPSIS: Final = ".B authorizerd\n.I COMMAND\n.RI [ OPTIONS ]"
_DESCRIPTION: Final = """\
authorizerd answers whether a principal may perform an operation on a Kafka resource, exactly as
Kafka's StandardAuthorizer would. It serves HTTP, a stream of frames and the Kafka protocol, and
keeps the ACLs in a log in Kafka's own format. Every command prints its options with
.BR \\-\\-help ."""
_SIGNALS: Final = """\
.TP
.BR SIGTERM ", " SIGINT
End
.BR "authorizerd serve" ,
after every accepted request is answered and written.
.TP
.B SIGHUP
Reload the configuration, the tokens and the secret for masked audit lines."""
_ENVIRONMENT: Final = """\
.TP
.B AUTHORIZERD_PROFILE
The cluster that commands use if no flag names one: the path of a file with Kafka's
client keys and bootstrap.servers, or the name of such a file in
.IR ~/.config/authorizerd .
If it contains a password, its mode must be 0600.
.TP
.B NO_COLOR
If it is set, no output has colours."""
_FILES: Final = """\
.TP
.I server.properties
The configuration, in Kafka's syntax; named by
.BR \\-\\-config .
.TP
.I metadata.log.dir/__cluster_metadata\\-0
The log with the ACLs, in Kafka's format."""
_SEE_ALSO: Final = """\
.B authorizerd docs
lists the pages of the documentation, such as configuration, errors, metrics and runbook."""


def documents() -> Mapping[str, str]:
    """Return each file's path in the project, and its content."""
    completions = {
        f"ops/completion/{Path(installed).name}": completion(command_tree(), shell)
        for shell, installed in COMPLETIONS.items()
    }
    return {"docs/authorizerd.1": manual_page(command_tree()), **completions}


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for one shell."""
    _offer_words(parser)
    first, newline, rest = shtab.complete(parser, shell=shell).partition("\n")
    note = _NOTE.format(COMPLETIONS[shell])
    return f"{first}{newline}{note}{rest.rstrip()}\n"


def _offer_words(parser: argparse.ArgumentParser) -> None:
    """Offer all known words, and remove all metavars, because shtab does not quote them for zsh."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _offer_words(inner)
        else:
            action.metavar = None
            offer_words(parser.prog, action)


def manual_page(parser: argparse.ArgumentParser) -> str:
    """Return the page, for man(1)."""
    _widen(parser)
    page = Manpage(parser, format="single-commands-section")
    page.date = ""  # otherwise the page would change every day
    page.manual = "authorizerd"
    page.description = _NAME
    parser.description = None
    parser._positionals.title = "commands"
    parser._action_groups.reverse()  # the page names a few options first, then the commands
    for heading, text in (
        ("synopsis", _SYNOPSIS),
        ("description", _DESCRIPTION),
        ("exit status", _exit_status()),
        ("environment", _ENVIRONMENT),
        ("signals", _SIGNALS),
        ("files", _FILES),
        ("see also", _SEE_ALSO),
    ):
        page.add_section(heading, "=", text)
    text = str(page).replace("…", "...")  # troff reads ASCII
    return f'.\\" Written by `make install-files`.\n{text}'


def _widen(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = partial(argparse.HelpFormatter, width=_LINE_WIDTH)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _widen(inner)


def _exit_status() -> str:
    """Return the table of docs/command-line.md as a list."""
    lines = (ROOT / "docs/command-line.md").read_text().splitlines()
    rows = [line.strip("| ").replace("`", "").split(" | ") for line in lines]
    return "\n".join(
        f".TP\n.B {command}: {code}\n{meaning}".replace("-", "\\-")
        for command, code, meaning in (row for row in rows if len(row) == 3 and row[1].isdigit())
    )
