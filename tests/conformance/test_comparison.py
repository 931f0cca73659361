"""The other systems of docs/comparison.md answer as the page shows."""

import shutil
from pathlib import Path

import pytest

from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Shell, run_page

SECONDS_MAX = 1800
"""Time limit of a command: Go compiles the programs."""


def test_other_systems_answer_as_the_page_shows(tmp_path: Path) -> None:
    for program in ("go", "npm", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    with Shell(tmp_path, SECONDS_MAX) as shell:
        run_page("comparison.md", "tests/conformance/test_comparison.py", shell, Ports())
