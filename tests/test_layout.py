"""Rules for modules: imports form no circle, and tests share helpers in modules of their own."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import grimp
import pytest

from tests.conftest import LONGEST_PLACES, SLOW_PLACES, SPARK_PLACES, pytest_collection_modifyitems

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


@pytest.mark.parametrize(("source", "expected"), [
    ("from tests.acl.test_model import ACL", True),
    ("from tests.acl import test_model", True),
    ("def f():\n    import tests.acl.test_model", True),
    ("from tests.support.acls import acl", False),
    ("from test_library import test_thing", False),
])  # fmt: skip
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


def test_imports_form_no_circle() -> None:
    """Imports for types count, too. A CycleError names the modules."""
    graph = grimp.build_graph("authorizerd", cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("place", [*SLOW_PLACES, *LONGEST_PLACES, *SPARK_PLACES])
def test_named_place_exists(place: str) -> None:
    assert (TESTS / place).exists()


def item_of(place: str, *fixtures: str, marker: str | None = None) -> pytest.Item:
    item = Mock(spec=pytest.Item, path=TESTS / place, fixturenames=fixtures)
    item.get_closest_marker.side_effect = lambda name: True if name == marker else None
    return cast("pytest.Item", item)


@pytest.mark.parametrize("is_whole", [False, True])
def test_run_begins_with_tests_on_spark_and_with_the_longest(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """A whole run has the nightly tests, too."""
    monkeypatch.setattr("tests.conftest.IS_WHOLE", is_whole)
    quick = [item_of(f"acl/test_{number}.py") for number in range(4)]
    spark = [item_of(f"ops/replay/test_{number}.py", "spark") for number in range(2)]
    longest = [item_of(LONGEST_PLACES[0])]
    nightly = [item_of("acl/test_9.py", marker="nightly")]
    items = [*quick[:2], *longest, *spark, *quick[2:], *nightly]
    config = Mock()
    pytest_collection_modifyitems(config, items)
    assert items == [*spark, *longest, *quick, *(nightly if is_whole else ())]
    deselected = [] if is_whole else nightly
    config.hook.pytest_deselected.assert_called_once_with(items=deselected)
