"""Generate the manual page, in man(7)'s macros.

**Invariant:** every text is escaped, so troff never interprets one as a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ops.manual.surface import Command, Option

_HEAD: Final = """\
.\\" Written by python -m tests.ops.manual: change the parsers instead.
.TH AUTHORIZERD 1
.SH NAME
authorizerd \\- Apache Kafka's ACL authorizer as a daemon
.SH SYNOPSIS
.B authorizerd
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
It answers whether a principal may perform an operation on a Kafka resource, exactly as Kafka's
StandardAuthorizer would. It serves HTTP, a stream of frames and the Kafka protocol, and keeps the
ACLs in a log in Kafka's own format.
"""
_TAIL: Final = """\
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
End
.BR "authorizerd serve" ,
after every accepted request is answered and written.
.TP
.B SIGHUP
Reload the configuration, the tokens and the secret for masked audit lines.
.SH SEE ALSO
docs/configuration.md, docs/errors.md, docs/metrics.md and docs/runbook.md of the project.
"""


def man_page(commands: Sequence[Command], exit_codes: Sequence[Sequence[str]]) -> str:
    """Return the page.

    Args:
        exit_codes: rows of command, exit code and meaning.
    """
    lines = [".SH COMMANDS"]
    for command in commands:
        lines += _of_command(command)
    lines.append(".SH EXIT STATUS")
    for name, code, meaning in exit_codes:
        lines += [".TP", f".B {escaped(name)}: {code}", escaped(meaning)]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _of_command(command: Command) -> Iterator[str]:
    yield f".SS {escaped(' '.join(command.words))}"
    yield escaped(f"{command.help[:1].upper()}{command.help[1:].rstrip('.')}.")
    for option in command.options:
        yield ".TP"
        yield f"\\fB{escaped(', '.join(option.names) or option.value)}\\fR{_value(option)}"
        yield escaped(
            " ".join(filter(None, (option.help, "(required)" * option.is_required))) or "-"
        )


def _value(option: Option) -> str:
    return f" \\fI{escaped(option.value)}\\fR" if option.names and option.value else ""


def escaped(text: str) -> str:
    """Return ``text`` as troff prints it to the letter, from the beginning of a line or not."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text
