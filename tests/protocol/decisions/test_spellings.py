"""Names that requests may spell in several ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import OPERATIONS, Operation
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.protocol.decisions.spellings import Spellings

BY_NAME = {Operation(code).name: code for code in OPERATIONS}
SPELLINGS = Spellings(BY_NAME)


@pytest.mark.parametrize(
    "name",
    [
        "DESCRIBE_CONFIGS", "describe_configs", "DescribeConfigs", "describeConfigs",
        "describe-configs", "DESCRIBE-CONFIGS", "describeconfigs", "dEsCrIbE_cOnFiGs",
    ],
)  # fmt: skip
def test_kafkas_spellings_are_known_in_any_case(name: str) -> None:
    assert SPELLINGS.find(name) == Operation.DESCRIBE_CONFIGS


@pytest.mark.parametrize(
    "name",
    [
        "de_scribe_configs", "describe__configs", "describe_configs_", "_describe_configs",
        "describe configs", "describe.configs", "r-ead", "", "-", "de\u017fcribe_configs",
    ],
)  # fmt: skip
def test_other_words_are_unknown(name: str) -> None:
    """A hyphen or an underscore counts only between the words of a name."""
    assert SPELLINGS.find(name) is None


def test_usual_spellings_need_no_change_of_case() -> None:
    for name in ("READ", "read", "Read", "DescribeConfigs", "describeConfigs", "describe-configs"):
        assert SPELLINGS.usual[name] == SPELLINGS.find(name.lower())
    assert "rEAD" not in SPELLINGS.usual


def test_a_name_as_it_was_given_counts_first() -> None:
    """An ambiguous spelling is unknown: the daemon never guesses."""
    spellings = Spellings({"a_b": 1, "a-b": 2, "USER": 3, "user": 4, "x_y": 5, "xy": 5})
    assert [spellings.find(name) for name in ("a_b", "a-b", "USER", "user")] == [1, 2, 3, 4]
    assert [spellings.find(name) for name in ("aB", "AB", "A_B", "User")] == [None, None, 1, 4]
    assert spellings.find("X-Y") == 5


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("raed", "READ"), ("rea", "READ"), ("reead", "READ"), ("reed", "READ"),
        ("descrybe", "DESCRIBE"),
        ("wriet", "WRITE"), ("DescribeConfig", None), ("describe_config", "DESCRIBE_CONFIGS"),
        ("fly", None), ("read" * 9, None), ("", None),
    ],
)  # fmt: skip
def test_an_unknown_name_gets_a_similar_one(name: str, similar: str | None) -> None:
    meant = "" if similar is None else f" (did you mean {similar}?)"
    assert SPELLINGS.describe_unknown("unknown operation", name) == (
        f"unknown operation {name!r}{meant}: expected one of {', '.join(BY_NAME)}"
    )


@given(st.sampled_from(sorted(BY_NAME)), st.data())
def test_every_single_typo_finds_a_name(name: str, data: st.DataObject) -> None:
    """One character is missing, added, replaced, or swapped with the next."""
    place = data.draw(st.integers(0, len(name) - 2))
    start, rest = name[:place], name[place:]
    other = data.draw(st.sampled_from("QZ9"))
    typos = [start + rest[1:], f"{start}{other}{rest}", f"{start}{other}{rest[1:]}"]
    typos.append(start + rest[1] + rest[0] + rest[2:])
    for typo in typos:
        if SPELLINGS.find(typo) is None:
            assert "did you mean" in SPELLINGS.describe_unknown("unknown", typo)


@given(st.text("_-aBç", min_size=1, max_size=6), st.text("_-aBç", max_size=6))
def test_only_case_and_word_boundaries_may_differ(name: str, other: str) -> None:
    """Only ASCII letters match in any case."""
    if Spellings({name: 1}).find(other) is not None:
        assert strip_boundaries(name) == strip_boundaries(other)


def strip_boundaries(name: str) -> str:
    return ascii_lower(name).replace("_", "").replace("-", "")
