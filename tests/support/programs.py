"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

SECONDS_MAX = 300


def run_program(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Return the exit code of a program, and what it printed; ``text`` is its standard input."""
    return subprocess.run(
        words, cwd=cwd, env=env, input=text, capture_output=True, text=True, timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip


def output_of(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Return what a program printed that succeeded."""
    done = run_program(*words, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
