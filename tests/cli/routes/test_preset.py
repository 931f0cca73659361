"""``authorizerd routes preset``."""

from pathlib import Path

import pytest

from tests.support.printed import run_main

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "ops/routes").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_preset_is_printed_word_for_word_and_passes_its_check(path: Path) -> None:
    """``always denied`` lists what cannot be asked, with the reasons of the file."""
    printed = run_main("routes", "preset", path.stem).out
    assert printed == path.read_text()
    checked = run_main("routes", "check", path).out
    assert "always denied:" in checked


def test_all_presets_are_listed_with_their_titles() -> None:
    names = [line.split()[0] for line in run_main("routes", "preset").out.splitlines()]
    assert names == [path.stem for path in FILES]


def test_unknown_preset_is_rejected_with_the_known_ones() -> None:
    error = run_main("routes", "preset", "strimzi-brige", code=1).err
    assert "unknown preset 'strimzi-brige' (did you mean strimzi-bridge?)" in error
    assert "karapace-rest" in error
