"""The recipes that need Java: their commands, run as the pages show them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.documents import ROOT, blocks_of, commands_of
from tests.end_to_end.example_daemon import (
    ExampleDaemon,
    Shell,
    check,
    running_example,
    save_files,
)

SECONDS_MAX = 300
"""Time limit of a command: Maven downloads, and a registry starts."""


def run_page(page: str, daemon: ExampleDaemon) -> None:
    """Run all commands of a page in one shell, in order."""
    blocks = [*blocks_of(ROOT / "docs" / page)]
    save_files(blocks, daemon)
    with closing(Shell(daemon, SECONDS_MAX)) as shell:
        for block in blocks:
            for command in commands_of(block.text) if block.language == "console" else ():
                check(command, daemon, shell)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ExampleDaemon]:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    with running_example(tmp_path) as daemon:
        yield daemon


def test_registry_behind_a_gateway(daemon: ExampleDaemon) -> None:
    run_page("recipe-registry.md", daemon)
