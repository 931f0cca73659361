"""The tests that documents and tables name."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of a module's functions, and of those of modules that it imports whole."""
    names: set[str] = set()
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(each.name)
        elif isinstance(each, ast.ImportFrom) and each.module and each.names[0].name == "*":
            names |= functions_of(ROOT / f"{each.module.replace('.', '/')}.py")
    return frozenset(names)


def is_test(node_id: str) -> bool:
    """Return True if a test exists. ``node_id`` is its file in the sources and its name."""
    file, _, test = node_id.partition("::")
    path = ROOT / file
    return test.startswith("test_") and path.is_file() and test in functions_of(path)
