"""The catalogue still fits the code: that its mutants are found, ``make mutants`` shows."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, document
from tests.mutants.mutant import Mutant, StaleMutantError

ROOT = Path(__file__).parents[2]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of a module's functions."""
    body = ast.parse(path.read_text()).body
    return frozenset(
        each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_of_the_code_as_it_is(mutant: Mutant) -> None:
    """Its text stands once in its file, and what it becomes is Python."""
    ast.parse(mutant.applied_to((ROOT / mutant.file).read_text()))
    assert mutant.becomes != mutant.text


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_test_that_must_find_it_is_there(mutant: Mutant) -> None:
    """A test that was renamed would be no failure, but no find either."""
    file, _, test = mutant.found_by.partition("::")
    assert test in functions_of(ROOT / file)


def test_each_name_stands_for_one_mutant_and_there_are_enough() -> None:
    """A mutant that is made twice shows nothing new."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 24
    assert len({(mutant.file, mutant.text, mutant.becomes) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("source", ["", "guard()", "guard() or guard()\n" * 2])
def test_a_text_that_does_not_stand_there_once_is_stale(source: str) -> None:
    """The error names the file and the mutant."""
    mutant = Mutant(name="no guard", file="a.py", text="guard() or", becomes="", found_by="")
    assert mutant.applied_to("guard() or True") == " True"
    with pytest.raises(StaleMutantError, match=r"^a\.py: the text of 'no guard' stands there"):
        mutant.applied_to(source)


def test_the_document_is_that_of_the_catalogue() -> None:
    """``python -m tests.mutants --document > docs/mutants.md`` would change nothing."""
    assert (ROOT / "docs/mutants.md").read_text() == document()
