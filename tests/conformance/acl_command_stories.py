"""Run the stories of ``acl_command_cases``, and record their output as text for comparisons.

``tests/data/kafka-acls`` has the output of kafka-acls 4.3.1. To record it again on a server without
ACLs, put the flags of the connection after the tool::

    python -m tests.conformance.acl_command_stories DIRECTORY kafka-acls.sh \\
        --bootstrap-server localhost:9092 --command-config admin.properties
"""

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.conformance.acl_command_cases import STORIES, Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """The output and the exit code of a command."""

    out: str
    error: str
    code: int


_PATTERN = re.compile(r"ResourcePattern\(resourceType=.*?, patternType=[A-Z]+\)")
_ENTRY = re.compile(r" ?(\t\(principal=.*\)\n)")
_PRINCIPAL = re.compile(r"^(?=ACLs for principal )", re.MULTILINE)
_OPERATIONS = re.compile(r"(.* only supports operations )\[(.*)\]")
_LOGGED = ("[", "authorizerd: ")
_FRAME = re.compile(r"\t(at |\.\.\. )")


def comparable(printed: Printed) -> Printed:
    """Return the part of the output that two tools must agree on.

    Kafka's order comes from hash tables, so this sorts ACLs within a block, adjacent blocks by
    pattern, and principals by name. It drops stack frames, logged lines and the help, because they
    differ between the tools.
    """
    lines = [line for line in printed.out.splitlines(keepends=True) if not _FRAME.match(line)]
    # Our warnings, which kafka-acls does not have, come before the errors.
    errors = printed.error.split("\n")
    said = next(line for line in errors if not line.startswith("authorizerd: warning: "))
    if said.startswith(_LOGGED):
        said = ""
    before, *sections = _PRINCIPAL.split("".join(lines))
    out = "".join("".join(_ordered(each.splitlines(True))) for each in (before, *sorted(sections)))
    return Printed(out=out, error=_OPERATIONS.sub(_ordered_operations, said), code=printed.code)


def _ordered_operations(match: re.Match[str]) -> str:
    return f"{match[1]}[{', '.join(sorted(match[2].split(', ')))}]"


def _ordered(lines: Iterable[str]) -> list[str]:
    """Sort the ACLs of each block, and adjacent blocks by pattern."""
    blocks: list[list[str]] = [[]]
    for entries, run in groupby(lines, key=lambda line: bool(_ENTRY.fullmatch(line))):
        for line in sorted(_ENTRY.sub(r"\1", line) for line in run) if entries else run:
            if line.startswith(("Acl (", "Adding ", "Are you ", "Current ", "ACLs for ", "Error ")):
                blocks.append([])
            blocks[-1].append(line)
    ordered: list[str] = []
    for patterned, group in groupby(blocks, key=lambda block: bool(_pattern(block))):
        beside = list(group)
        if patterned:
            beside.sort(key=lambda block: (_pattern(block), block))
        for block in beside:
            ordered += block
    return ordered


def _pattern(block: list[str]) -> str:
    found = _PATTERN.search("".join(block))
    return "" if found is None else found[0]


def run_on_terminal(command: Sequence[str], answers: str) -> Printed:
    """Run a command on a terminal that neither echoes nor changes bytes; prompts need one."""
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=errors) as process:
            os.close(slave)
            os.write(master, answers.encode())
            out = b"".join(iter(lambda: _read(master), b""))
        os.close(master)
        errors.seek(0)
        return Printed(out=out.decode(), error=errors.read().decode(), code=process.returncode)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the command has closed its side
        return b""


def story_text(cases: Iterable[Case], printed: Iterable[Printed]) -> str:
    """Return the text: ``$`` command, ``<`` answer, ``>`` output, ``!`` error, ``=`` code."""
    lines: list[str] = []
    for case, each in zip(cases, printed, strict=True):
        lines.append(f"$ {case.arguments}")
        lines += [f"< {line}" for line in case.answers.split("\n")[:-1]]
        lines += [f"> {line}" for line in each.out.split("\n")[:-1] if not _FRAME.match(line)]
        said = comparable(each).error
        lines += [f"! {said}"] if said else []
        lines.append(f"= {each.code}")
    return "\n".join(lines) + "\n"


def recorded(text: str) -> list[Printed]:
    """Return the output of each command in a story's text."""
    found: list[Printed] = []
    out, error = "", ""
    for line in text.split("\n")[:-1]:
        kind, content = line[:1], line[2:]
        if kind == ">":
            out += content + "\n"
        elif kind == "!":
            error = content
        elif kind == "=":
            found.append(Printed(out=out, error=error, code=int(content)))
            out, error = "", ""
    return found


def command(case: Case, tool: str, connection: Sequence[str]) -> list[str]:
    return [tool, *(connection if case.connected else ()), *shlex.split(case.arguments)]


def main(directory: str, tool: str, *connection: str) -> None:
    """Run each story with ``tool`` and write its text into ``directory``."""
    for name, cases in STORIES.items():
        printed = [run_on_terminal(command(each, tool, connection), each.answers) for each in cases]
        Path(directory, f"{name}.txt").write_text(story_text(cases, printed), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
