"""The tests that documents and tables name."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of a module's functions."""
    body = ast.parse(path.read_text()).body
    return frozenset(
        each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def is_test(node_id: str) -> bool:
    """Return True if a test exists. ``node_id`` is its file in the sources and its name."""
    file, _, test = node_id.partition("::")
    path = ROOT / file
    return test.startswith("test_") and path.is_file() and test in functions_of(path)
