"""A short part of ``make fuzz``, with a fixed seed, and every input that was once found."""

import pytest

from tests.fuzz.corpus import CORPUS, Found
from tests.fuzz.engine import replay, run
from tests.fuzz.targets import TARGETS
from tests.support.sizes import size

INPUTS = size(1_000, 10_000)
"""Of all targets together."""
INPUTS_MIN = size(5, 20)
_WEIGHTS = sum(each.weight for each in TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_read_or_rejected(name: str) -> None:
    target = TARGETS[name]
    inputs = max(INPUTS_MIN, round(INPUTS * target.weight / _WEIGHTS))
    result = run(target, inputs=inputs)
    assert result.failures == []
    assert result.inputs == inputs


@pytest.mark.parametrize("found", CORPUS, ids=lambda found: f"{found.target}: {found.fault}")
def test_found_input_is_read_or_rejected(found: Found) -> None:
    assert replay(TARGETS[found.target], [found.data]) == []
