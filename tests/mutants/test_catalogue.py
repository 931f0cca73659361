"""The catalogue matches the code. ``make mutants`` checks that the tests find its mutants."""

import ast
from dataclasses import astuple
from pathlib import Path

import pytest

from tests.mutants.catalogue import CATALOGUE, MUTANTS
from tests.mutants.mutant import Mutant, StaleMutantError
from tests.support.named_tests import is_test

ROOT = Path(__file__).parents[2]


def test_mutants_fit_the_code() -> None:
    """The text of each occurs once, and the result is valid if the file is Python."""
    for name, mutant in MUTANTS.items():
        source = mutant.applied_to((ROOT / mutant.file).read_text())
        if mutant.file.endswith(".py"):
            ast.parse(source)
        assert mutant.becomes != mutant.text, name


def test_tests_of_mutants_exist() -> None:
    assert [name for name, each in MUTANTS.items() if not is_test(each.found_by)] == []


def test_names_and_mutants_are_unique() -> None:
    assert len(MUTANTS) == sum(map(len, CATALOGUE.values())) >= 24
    assert len({astuple(mutant) for mutant in MUTANTS.values()}) == len(MUTANTS)


@pytest.mark.parametrize("source", ["", "guard()", "guard() or guard()\n" * 2])
def test_mutant_whose_text_does_not_occur_once_is_stale(source: str) -> None:
    mutant = Mutant(file="a.py", text="guard() or", becomes="", found_by="")
    assert mutant.applied_to("guard() or True") == " True"
    with pytest.raises(StaleMutantError, match=r"^a\.py: expected 'guard\(\) or' once"):
        mutant.applied_to(source)
