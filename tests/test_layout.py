"""Rules for the tests' modules: helpers are in modules other than ``test_*.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import LONGEST_PLACES, SLOW_PLACES, pytest_collection_modifyitems

TESTS = Path(__file__).parent


def imported_modules(source: str) -> Iterator[str]:
    """Yield each imported module, and each name that may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "tests" and any(part.startswith("test_") for part in parts)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from tests.acl.test_model import ACL", True),
        ("from tests.acl import test_model", True),
        ("def f():\n    import tests.acl.test_model", True),
        ("from tests.support.acls import acl", False),
        ("from test_library import test_thing", False),
    ],
)
def test_import_of_a_test_module_is_found(source: str, expected: bool) -> None:
    assert any(map(is_test_module, imported_modules(source))) is expected


def test_no_module_imports_a_test_module() -> None:
    found = {
        f"{path.relative_to(TESTS)}: {name}"
        for path in TESTS.rglob("*.py")
        for name in imported_modules(path.read_text())
        if is_test_module(name)
    }
    assert found == set(), "move what they share to a module of another name, or to tests/support"


@pytest.mark.parametrize("place", [*SLOW_PLACES, *LONGEST_PLACES])
def test_named_place_exists(place: str) -> None:
    assert (TESTS / place).exists()


def test_longest_places_start_first_in_the_same_order() -> None:
    places = ["acl/test_index.py", "ops/replay/test_a.py", "tls/test_b.py", "ops/replay/test_c.py"]
    items: list[pytest.Item] = [Mock(spec=pytest.Item, path=TESTS / place) for place in places]
    pytest_collection_modifyitems(items)
    assert [item.path for item in items] == [TESTS / places[at] for at in (1, 3, 0, 2)]
