from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import PatternType
from authorizerd.acl.patterns import matches
from authorizerd.management.policy.name_classes import divide
from authorizerd.management.policy.words import Names

texts = st.text("ab*", max_size=3)
patterns = st.tuples(st.sampled_from((int(PatternType.LITERAL), int(PatternType.PREFIXED))), texts)
ALL_NAMES = ["".join(some) for size in (1, 2, 3, 4) for some in product("ab*z", repeat=size)]


@given(st.lists(patterns, max_size=8), texts)
def test_every_name_is_matched_like_the_example_of_one_class(
    some: list[tuple[int, str]], text: str
) -> None:
    """So a decision for the example is that for every name of its class."""

    def matching(name: str) -> list[bool]:
        return [matches(kind, pattern, name) for kind, pattern in (*some, (3, "*"))]

    classes = list(divide(Names(text, is_prefix=True), some))
    examples = [matching(each.example) for each in classes]
    for name in ALL_NAMES:
        if name.startswith(text):
            assert matching(name) in examples
    for each in classes:
        assert each.example.startswith(each.names.text)
        assert each.example.startswith(text)
        assert each.example
    assert len(set(classes)) == len(classes)


def test_one_name_is_one_class() -> None:
    (only,) = divide(Names("orders"), [(4, "ord"), (3, "orders")])
    assert only.names == Names("orders")
    assert only.example == "orders"


def test_example_is_no_name_of_a_longer_pattern() -> None:
    taken = [(3, f"t{letter}") for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    first = next(divide(Names("t", is_prefix=True), taken))
    assert first.example not in {name for _, name in taken}
    assert first.example.startswith("t")
