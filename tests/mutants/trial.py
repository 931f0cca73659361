"""Try mutants in a copy of the tree, one after the other.

**Invariant:** the tree itself never changes, and the copy has at most one mutant at a time.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.mutant import Mutant
from tests.support.sizes import WHOLE

SECONDS_MAX: Final = 60.0
"""Time limit of one test, unless the machine is slow."""
SLOWER_MAX: Final = 5
"""A test hangs if it takes this many times as long as the same test without the mutant."""

_OPTIONS: Final = {"PYTEST_ADDOPTS": "", "PYTHONPYCACHEPREFIX": "", WHOLE: "1"}
"""The options of the run that tries mutants, such as --basetemp, are not for the tests' own run.

Its bytecode must lie in the copy, where it is deleted with each change.
"""

NOT_COPIED: Final = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


class Outcome(Enum):
    """The result of a mutant; the value is printed."""

    FOUND = "found"
    HUNG = "found: the test hangs"
    SURVIVED = "SURVIVED"
    BROKEN = "NOT RUN"


_OUTCOMES: Final[dict[int | None, Outcome]] = {
    pytest.ExitCode.TESTS_FAILED: Outcome.FOUND,
    pytest.ExitCode.OK: Outcome.SURVIVED,
    None: Outcome.HUNG,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mutant with its outcome."""

    mutant: Mutant
    outcome: Outcome
    seconds: float

    @property
    def is_found(self) -> bool:
        return self.outcome in (Outcome.FOUND, Outcome.HUNG)


class Copy:
    """A copy of ``root`` in ``folder``, which must be empty and also gets the tests' files."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._tree = folder / "tree"
        self._output = folder / "output"
        self._scratch = folder / "scratch"
        # The links below src are copied as links, so that they lead into the copy.
        shutil.copytree(root, self._tree, symlinks=True, ignore=NOT_COPIED)

    @property
    def _import_path(self) -> tuple[str, str]:
        return str(self._tree / "src"), str(self._tree)

    @property
    def output(self) -> str:
        """The output of the last run."""
        return self._output.read_text(errors="replace")

    def passes(self, tests: Sequence[str]) -> bool:
        """Return True if all ``tests`` pass without a mutant; blocks."""
        distinct = list(dict.fromkeys(tests))
        limit = len(distinct) * SECONDS_MAX * SLOWER_MAX
        return self._run(distinct, limit) == pytest.ExitCode.OK

    def try_mutant(self, mutant: Mutant, seconds_max: float = SECONDS_MAX) -> Verdict:
        """Apply a mutant, run its test, and restore the file; blocks.

        A test that exceeds its time limit may hang, or the machine is slow. So it runs again with a
        limit that follows from how long the test takes now without the mutant.

        Raises:
            StaleMutantError: the mutant does not fit the code.
        """
        started = time.monotonic()
        outcome = self._run_with(mutant, seconds_max)
        if outcome is Outcome.HUNG:
            outcome = self._try_longer(mutant, seconds_max)
        return Verdict(mutant, outcome, time.monotonic() - started)

    def _try_longer(self, mutant: Mutant, seconds_max: float) -> Outcome:
        begun = time.monotonic()
        if not self.passes([mutant.found_by]):
            return Outcome.BROKEN
        needed = time.monotonic() - begun
        return self._run_with(mutant, max(seconds_max, SLOWER_MAX * needed))

    def _run_with(self, mutant: Mutant, seconds_max: float) -> Outcome:
        path = self._tree / mutant.file
        source = path.read_text()
        broken = mutant.applied_to(source)
        try:
            _write(path, broken)
            code = self._run([mutant.found_by, "-x"], seconds_max)
        finally:
            _write(path, source)
        return _OUTCOMES.get(code, Outcome.BROKEN)

    def _run(self, arguments: Sequence[str], seconds_max: float) -> int | None:
        """Run pytest in the copy; return its exit code, or None after ``seconds_max``."""
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--hypothesis-seed=0", f"--basetemp={self._scratch}", *arguments),
        ]
        with (
            self._output.open("wb") as output,
            subprocess.Popen(
                command,
                cwd=self._tree,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(self._import_path)} | _OPTIONS,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that the processes of a test end with it
            ) as process,
        ):
            try:
                return process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _write(path: Path, source: str) -> None:
    """Write a module and delete its bytecode, which would be used for a source of its size."""
    path.write_text(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
