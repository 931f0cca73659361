"""Conversations with the metadata shell, and every intended difference from Kafka's.

A transcript has, for each command, a line that begins with ``$ `` and then what Kafka's shell
printed. Its answer becomes ours by ``DIFFERENCES``; everything else must be equal, byte for byte.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.conversation import split_line
from authorizerd.cli.shell.tree import Folder

KAFKAS_VERSION: Final = "4.3.1"
KAFKAS_COMMIT: Final = "26b251a451ce941d"


@dataclass(frozen=True)
class Difference:
    """A difference from Kafka's shell, and its reason. ``expect`` turns its text into ours."""

    name: str
    reason: str
    expect: Callable[[str], str]


def _replace(pattern: str, by: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: compiled.sub(lambda found: found.expand(by), text)


DIFFERENCES: Final = (
    Difference(
        "no secrets",
        "Kafka's shell prints the salt and the keys of SCRAM credentials",
        _replace(
            r"ScramCredentialData\(salt=\w+, storedKey=\w+, serverKey=\w+, ",
            "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], ",
        ),
    ),
    Difference("the version is ours", "/local is about the shell",
               _replace(rf"^( *){re.escape(KAFKAS_VERSION)}$", rf"\g<1>{version('authorizerd')}")),
    Difference("no commit", "a wheel does not know from which commit it was built",
               _replace(rf"^( *){KAFKAS_COMMIT}$", r"\g<1>unknown")),
    Difference("/acl", "the folder of KIP-801, which Kafka's shell has lost",
               _replace(r"^image\nlocal$", "acl\nimage\nlocal")),
    Difference("/acl by a wildcard", "the same",
               _replace(r"\Aimage:\nacls\n", "acl:\nid\n\nimage:\nacls\n")),
)  # fmt: skip


def expect_ours(text: str) -> str:
    """Return what our shell prints where Kafka's prints ``text``."""
    for difference in DIFFERENCES:
        text = difference.expect(text)
    return text


def read_transcript(path: Path) -> list[tuple[str, str]]:
    """Return each command, and what Kafka's shell printed."""
    parts = re.split(r"^\$ ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pairs = (part.partition("\n") for part in parts[1:])
    return [(command, printed) for command, _, printed in pairs]


def converse(root: Folder, lines: Iterable[str]) -> list[str]:
    """Return what our shell prints for each line that is entered."""
    printed: list[str] = []
    shell = Shell(root, printed.append, is_interactive=True)
    answers: list[str] = []
    for line in lines:
        printed.clear()
        shell.remember(line)
        shell.run(split_line(line))
        answers.append("".join(printed))
    return answers
