"""Outcomes of mutants in a tree with one function and the project's layout."""

from pathlib import Path

import pytest

from tests.mutants import trial
from tests.mutants.mutant import Mutant
from tests.mutants.trial import Copy, Outcome
from tests.support.fixture_types import MonkeyPatch, TempPathFactory

MODULE = "def answer() -> int:\n    return 42\n"
TEST = (
    "from laid.room.guard import answer\n\n\ndef test_it() -> None:\n    assert answer() % 2 == 0\n"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: TempPathFactory) -> Copy:
    root = tmp_path_factory.mktemp("root")
    (root / "room").mkdir()
    (root / "room" / "guard.py").write_text(MODULE)
    (root / "src" / "laid").mkdir(parents=True)
    (root / "src" / "laid" / "room").symlink_to("../../room")
    (root / "test_guard.py").write_text(TEST)
    return Copy(root, tmp_path_factory.mktemp("copy"))


def becoming(text: str, *, test: str = "test_it") -> Mutant:
    return Mutant(
        file="room/guard.py",
        text="return 42",
        becomes=text,
        found_by=f"test_guard.py::{test}",
    )


def test_mutant_is_found_if_its_test_fails_and_is_then_undone(copy: Copy) -> None:
    """Also if both versions of the file have the same size and time."""
    found = copy.try_mutant(becoming("return 43"))
    assert (found.outcome, found.is_found) == (Outcome.FOUND, True)
    assert copy.passes([found.mutant.found_by] * 2)
    assert "1 passed" in copy.output


@pytest.mark.parametrize(
    ("mutant", "outcome"),
    [
        (becoming("return 44"), Outcome.SURVIVED),
        (becoming("return 43", test="test_another"), Outcome.BROKEN),
    ],
    ids=["the test passes", "the test is missing"],
)
def test_mutant_is_not_found_if_its_test_does_not_fail(
    copy: Copy, mutant: Mutant, outcome: Outcome
) -> None:
    verdict = copy.try_mutant(mutant)
    assert (verdict.outcome, verdict.is_found) == (outcome, False)


def test_hanging_test_is_killed_and_counts_as_found(copy: Copy, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(
        trial, "SLOWER_MAX", 1
    )  # the test never ends, so a short second try will do
    verdict = copy.try_mutant(becoming("return answer() if [*iter(int, 1)] else 0"), 0.5)
    assert verdict.outcome is Outcome.HUNG
    assert verdict.is_found


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ((None, pytest.ExitCode.OK, pytest.ExitCode.OK), Outcome.SURVIVED),
        ((None, pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), Outcome.FOUND),
        ((None, pytest.ExitCode.OK, None), Outcome.HUNG),
        ((None, pytest.ExitCode.TESTS_FAILED), Outcome.BROKEN),
        ((None, None), Outcome.BROKEN),
    ],
)
def test_slow_test_gets_a_second_try(
    copy: Copy,
    monkeypatch: MonkeyPatch,
    codes: tuple[int | None, ...],
    outcome: Outcome,
) -> None:
    """On a slow machine, a mutant that survives must not count as found."""
    left = list(codes)
    monkeypatch.setattr(copy, "_run", lambda arguments, seconds_max: left.pop(0))
    assert copy.try_mutant(becoming("return 44")).outcome is outcome
    assert not left


def test_large_folders_are_not_copied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in (".venv", ".git", "build", "acl"):
        (root / name).mkdir(parents=True)
    (tmp_path / "copy").mkdir()
    Copy(root, tmp_path / "copy")
    assert [each.name for each in (tmp_path / "copy" / "tree").iterdir()] == ["acl"]
