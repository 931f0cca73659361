"""Hypothesis strategies for recorded tuples, some of which ACLs cannot decide."""

from hypothesis import strategies as st

from authorizerd.replay.judging.asking import OPERATION_CODES, RESOURCE_TYPE_CODES
from authorizerd.replay.recorded.tuples import NO_EVENTS, Figures, RecordedTuple
from tests.support.strategies import resource_names

PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a", "User:root")

figures = st.builds(
    lambda events, first, more, rule: Figures(events, first, first + more, rule), st.integers(1, 9),
    st.integers(0, 10**13), st.integers(0, 10**6), st.sampled_from((None, "A", "B")),
)  # fmt: skip
answers = st.one_of(
    st.tuples(figures, st.just(NO_EVENTS)),
    st.tuples(st.just(NO_EVENTS), figures),
    st.tuples(figures, figures),
)
keys = st.tuples(
    st.sampled_from(PRINCIPALS), st.sampled_from((None, "10.0.0.1", "10.0.0.2")),
    st.sampled_from((*sorted(OPERATION_CODES), "ANY", "Read")),
    st.sampled_from((*sorted(RESOURCE_TYPE_CODES), "TOPICS")), resource_names,
    st.sampled_from(("LITERAL", "LITERAL", "LITERAL", "PREFIXED")),
)  # fmt: skip
tuples = st.builds(lambda key, both: RecordedTuple._make((*key, *both[0], *both[1])), keys, answers)
