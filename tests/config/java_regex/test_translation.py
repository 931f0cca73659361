"""Translation of Java patterns. tests/oracles and tests/conformance compare matches with Java's."""

from __future__ import annotations

import pytest

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.translation import translate


@pytest.mark.parametrize(
    ("pattern", "construct", "place"),
    [
        (r"ab\Gc", r"\G", 3),
        (r"\X", r"\X", 1),
        (r"a\p{IsLatin}", r"\p{IsLatin}", 2),
        (r"\p{InGreek}", r"\p{InGreek}", 1),
        (r"\p{IsAlphabetic}", r"\p{IsAlphabetic}", 1),
        (r"\N{DIGIT ONE}", r"\N", 1),
        (r"\b{g}", r"\b", 1),
        (r"\y", r"\y", 1),
        (r"\Qa\Ey\y", r"\y", 7),
        (r"\uD83D", r"\uD83D", 1),
        (r"\x{110000}", r"\x{110000}", 1),
        ("(?iu)x", "(?iu)", 1),
        ("(?x)x", "(?x)", 1),
        ("(?U:x)", "(?U:", 1),
        ("(?#x)", "(?#", 1),
        ("(?<n>x)(?<n>y)", "(?<n>", 8),
        ("(a", "(a", 1),
        ("a)", ")", 2),
        ("[a", "[a", 1),
        ("[b-a]", "b-a", 2),
        ("[a&&]", "[a&&", 1),
        ("[a&&^b]", "[a&&", 1),
        ("[a&&[b]&]", "[a&&[b]", 1),
        ("a**", "*", 3),
        ("+", "+", 1),
        ("a{", "a{", 1),
        ("x{2,1}", "x{2,1}", 1),
        ("x{99999999999}", "x{99999999999}", 1),
        ("(a*)*", "(a*)*", 1),
        ("^*", "^*", 1),
        (r"\R+", r"\R+", 1),
        (r"\1(a)", r"\1", 1),
        (r"(a\1)", r"\1", 3),
        (r"\k<n>", r"\k<n>", 1),
        ("(?=(a))", "(?=(a))", 1),
        ("(?>(a))", "(?>(a))", 1),
        ("(a)*+", "(a)*+", 1),
        ("((a)b)*", "((a)b)*", 1),
        ("(?:(a)b)+", "(?:(a)b)+", 1),
        ("(?<=a+)b", "a+", 5),
        (r"(a)(?<=\1)b", r"\1", 8),
    ],
)
def test_unsupported_construct_is_rejected_with_its_place(
    pattern: str, construct: str, place: int
) -> None:
    with pytest.raises(InvalidValueError) as raised:
        translate(pattern)
    assert f"'{construct}' at character {place}: " in str(raised.value)


@pytest.mark.parametrize("opened", ["(", "[a", "(?:"])
def test_deep_nesting_is_rejected(opened: str) -> None:
    with pytest.raises(InvalidValueError, match="nested more than 50 deep"):
        translate(opened * 10_000)


@pytest.mark.parametrize("pattern", ["(?<=a|bc)d", "x{3}" * 5 + "(?<!a|bc)"])
def test_look_behind_of_several_lengths_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidValueError, match="unsupported: look-behind"):
        translate(pattern)


def test_groups_keep_their_numbers_and_names() -> None:
    translation = translate("(a)(?:b)(?<last>c)")
    assert translation.pattern.groups == 2
    assert translation.group_names == {"last": 2}


@pytest.mark.parametrize(
    ("pattern", "last"), [("é", 0x10FFFF), (r"\b", 0x7F), ("(?<!a)", 0xFFFF), (r"(?<!a)\B", 0x7F)]
)
def test_last_code_point_with_a_known_answer_is_stated(pattern: str, last: int) -> None:
    assert translate(pattern).last_code_point == last
