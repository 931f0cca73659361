"""The code blocks of README.md and docs/*.md, and their markers.

A marker is a comment on the line above a block::

    <!-- not run: needs docker -->
    <!-- run by: tests/conformance/test_pages.py -->
    <!-- run with: authorizerd.tokens.file=tokens -->
    <!-- own daemon: plans -->
    <!-- file: service.py -->
    <!-- file: server.properties, run by: tests/end_to_end/test_tls.py -->

The first gives the reason why no test can run a block. The second names the test that runs it, if
it needs more than a daemon. The third adds settings to those of ``make run``, for the daemon of the
block's commands. The fourth starts a daemon that only the page's blocks with this name share,
because they change its ACLs. The fifth names the file in which the reader saves the block, in the
folder where the commands run; the last one does so for the commands of a page that a test runs as a
whole.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_BLOCK: Final = re.compile(
    r"^(?P<indent> *)"
    r"(?:<!-- (?P<marker>not run|run by|run with|own daemon|file): (?P<said>[^\n]*) -->\n"
    r"(?P=indent))?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
"""A block and its marker; in a list, both are indented."""
_HEADING: Final = re.compile(r"^## (.*)$", re.MULTILINE)
_EXIT_CODE: Final = re.compile(r"# exit code (\d+)")
_RUN_BY: Final = ", run by: "
_ANYTHING: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block and what its marker says.

    Attributes:
        reason: why no test runs the block.
        test: the test that runs it, if this is not ``test_documents``.
        settings: what is added to the daemon's settings.
        daemon: the name of the daemon that runs only this block and others with the name.
        file: where the block is saved.
        section: the last heading of level 2 above the block.
    """

    place: str
    language: str
    text: str
    reason: str | None = None
    test: str | None = None
    settings: str = ""
    daemon: str = ""
    file: str | None = None
    section: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a console block with the output that the document shows."""

    text: str
    shown: str
    exit_code: int = 0

    def matches(self, printed: str) -> bool:
        """Return True if the output is the shown one, where ``…`` matches anything."""
        wanted = map(re.escape, self.shown.split(_ANYTHING))
        return re.fullmatch(".*".join(wanted), printed, re.DOTALL) is not None


def blocks_of(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        headings = _HEADING.findall(text, 0, found.start())
        marker, said = found["marker"], found["said"] or ""
        file, _, test = said.partition(_RUN_BY) if marker == "file" else ("", "", "")
        if marker == "run by":
            test = said
        yield Block(
            place=f"{path.relative_to(ROOT)}:{line}",
            language=found["language"],
            text=dedent(found["text"]),
            reason=said if marker == "not run" else None,
            test=test or None,
            settings=said if marker == "run with" else "",
            daemon=f"{path.name}: {said}" if marker == "own daemon" else "",
            file=file or None,
            section=headings[-1] if headings else "",
        )


def all_blocks() -> list[Block]:
    paths = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return [block for path in paths for block in blocks_of(path)]


def commands_of(text: str) -> list[Command]:
    """Return the commands of a console block, each with the output that follows it."""
    begin, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    if begin or not parts:
        raise ValueError("expected a console block that begins with '$ '")
    return [_command(part.split("\n")) for part in parts]


def _command(lines: Sequence[str]) -> Command:
    """Return the command of these lines; a backslash continues it on the next line."""
    length = 1
    while lines[length - 1].endswith("\\"):
        length += 1
    text = "\n".join(lines[:length])
    code = _EXIT_CODE.search(text)
    return Command(
        text=text,
        shown="\n".join(lines[length:]).strip("\n"),
        exit_code=0 if code is None else int(code[1]),
    )
