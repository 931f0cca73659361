from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.spread import Spread


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 1000), min_size=1),
    st.integers(1, 5),
    st.randoms(),
)
def test_principal_has_one_lane_in_any_order(
    counts: dict[str, int], lanes: int, random: st.DataObject
) -> None:
    shuffled = list(counts.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Spread(counts.items(), lanes), Spread(shuffled, lanes)
    assert [one.lane_of(name) for name in counts] == [other.lane_of(name) for name in counts]
    assert {one.lane_of(name) for name in counts} <= set(range(lanes))


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(1, 5))
def test_lanes_are_balanced(counts: list[int], lanes: int) -> None:
    named = [(f"User:{number}", count) for number, count in enumerate(counts)]
    spread = Spread(named, lanes)
    loads = [0] * lanes
    for name, count in named:
        loads[spread.lane_of(name)] += count
    assert max(loads) <= sum(loads) / lanes + max(counts)


def test_uncounted_principal_has_a_lane() -> None:
    spread = Spread([], 3)
    assert spread.lane_of("User:new") == spread.lane_of("User:new")
    assert {spread.lane_of(f"User:{number}") for number in range(50)} == {0, 1, 2}
