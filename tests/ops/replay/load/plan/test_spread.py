from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.spread import Spread


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 1000), min_size=1),
    st.integers(1, 5),
    st.randoms(),
)
def test_a_principal_has_one_lane_whatever_the_order(
    counts: dict[str, int], lanes: int, random: st.DataObject
) -> None:
    """The same counts give the same lanes."""
    shuffled = list(counts.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Spread(counts.items(), lanes), Spread(shuffled, lanes)
    assert [one.lane_of(name) for name in counts] == [other.lane_of(name) for name in counts]
    assert {one.lane_of(name) for name in counts} <= set(range(lanes))


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(1, 5))
def test_no_lane_has_more_than_its_share_and_one_principal(counts: list[int], lanes: int) -> None:
    """The busiest lane is above the mean by less than its last principal."""
    named = [(f"User:{number}", count) for number, count in enumerate(counts)]
    spread = Spread(named, lanes)
    loads = [0] * lanes
    for name, count in named:
        loads[spread.lane_of(name)] += count
    assert max(loads) <= sum(loads) / lanes + max(counts)


def test_who_was_not_counted_has_a_lane_too() -> None:
    """It is one of those that there are, and always the same."""
    spread = Spread([], 3)
    assert spread.lane_of("User:new") == spread.lane_of("User:new")
    assert {spread.lane_of(f"User:{number}") for number in range(50)} == {0, 1, 2}
