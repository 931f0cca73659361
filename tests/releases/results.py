"""The results of the newest run with each release: a file, and the table that shows it.

Only a run writes the file.
"""

import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from tests.releases.versions import VERSIONS
from tests.releases.walk import SOURCES, Walk
from tests.support.named_tests import ROOT
from tests.support.written_tables import replace_table, write_table

FILE: Final = Path(__file__).with_name("results.json")
PAGE: Final = ROOT / "docs" / "conformance.md"
COMMAND: Final = "python -m tests.releases --write"
_HEAD: Final = (
    "Kafka", "questions", "differences", "follows controllers", "follows brokers", "day", "commit",
)  # fmt: skip


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result of one release.

    Attributes:
        day: in UTC.
        commit: of the daemon, with ``-dirty`` if files were changed.
        error: why the release could not run, or an empty string.
    """

    day: str
    commit: str
    seed: int = 0
    questions: int = 0
    differences: int = 0
    walks: Mapping[str, Walk] = msgspec.field(default_factory=dict)
    error: str = ""

    @property
    def is_passed(self) -> bool:
        walks = self.walks.values()
        return not (self.error or self.differences or any(walk.error for walk in walks))


Results = dict[str, Result]


def describe_run() -> tuple[str, str]:
    """Return today's day, and the commit of the working tree."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return datetime.now(UTC).date().isoformat(), described.stdout.strip()


def load_results() -> Results:
    """Return the results in the file."""
    return msgspec.json.decode(FILE.read_bytes(), type=Results)


def save_results(new: Results) -> None:
    """Replace the results of these releases, each a line of the file, and write the page."""
    results = {**(load_results() if FILE.exists() else {}), **new}
    lines = (
        f'"{version}": {msgspec.json.encode(results[version]).decode()}'
        for version in VERSIONS
        if version in results
    )
    FILE.write_text("{{\n{}\n}}\n".format(",\n".join(lines)))
    PAGE.write_text(write_page(PAGE.read_text(), results))


def write_page(page: str, results: Results) -> str:
    """Return the page with the table of these results."""
    rows = (_row(version, results.get(version)) for version in VERSIONS)
    return replace_table(page, COMMAND, write_table(_HEAD, rows))


def _row(version: str, result: Result | None) -> list[str]:
    if result is None:
        return [version, "not run", "", "", "", "", ""]
    if result.error:
        reason = " ".join(result.error.split())[:60]
        return [version, f"could not run: {reason}", "", "", "", result.day, result.commit]
    return [
        version,
        f"{result.questions:,}",
        str(result.differences),
        *_cells(result.walks),
        result.day,
        result.commit,
    ]


def _cells(walks: Mapping[str, Walk]) -> Iterator[str]:
    for source in SOURCES:
        walk = walks.get(source, Walk(error="not run"))
        failed = walk.error.partition(":")[0]
        yield f"failed: {failed}" if failed else f"{len(walk.passed)} steps passed"
