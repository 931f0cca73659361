from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.spread import spread


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
    placed = spread(counts.items(), lanes)
    assert spread(shuffled, lanes) == placed
    assert sorted(name for name, _ in placed) == sorted(counts)
    assert {lane for _, lane in placed} <= set(range(lanes))


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(1, 5))
def test_lanes_are_balanced(counts: list[int], lanes: int) -> None:
    named = {f"User:{number}": count for number, count in enumerate(counts)}
    loads = [0] * lanes
    for name, lane in spread(named.items(), lanes):
        loads[lane] += named[name]
    assert max(loads) <= sum(loads) / lanes + max(counts)
