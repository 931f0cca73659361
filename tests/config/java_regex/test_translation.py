"""Translation of Java patterns. tests/oracles and tests/conformance compare matches with Java's."""

import pytest

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.translation import translate


@pytest.mark.parametrize(("pattern", "construct", "place"), [
    (r"ab\Gc", r"\G", 3),
    (r"\X", r"\X", 1),
    (r"\R", r"\R", 1),
    (r"\h", r"\h", 1),
    (r"\0101", r"\0", 1),
    (r"\cJ", r"\c", 1),
    (r"a\p{IsLatin}", r"\p{IsLatin}", 2),
    (r"\p{InGreek}", r"\p{InGreek}", 1),
    (r"\p{javaLetter}", r"\p{javaLetter}", 1),
    (r"(?i)\p{Lu}", r"\p{Lu}", 5),
    (r"(?i:[\P{Lower}])", r"\P{Lower}", 6),
    (r"\N{DIGIT ONE}", r"\N", 1),
    (r"\b{g}", r"\b", 1),
    (r"\y", r"\y", 1),
    (r"\Qa\Ey\y", r"\y", 7),
    (r"\Q\E*", "*", 5),
    (r"\uD83D", r"\uD83D", 1),
    (r"\x{110000}", r"\x{110000}", 1),
    ("(?iu)x", "(?iu)", 1),
    ("(?x)x", "(?x)", 1),
    ("(?m)x", "(?m)", 1),
    ("(?U:x)", "(?U:", 1),
    ("(?#x)", "(?#", 1),
    ("(?<n>x)(?<n>y)", "(?<n>", 8),
    ("(a", "(a", 1),
    ("a)", ")", 2),
    ("[a", "[a", 1),
    ("[b-a]", "b-a", 2),
    ("[a&&b]", "&&", 3),
    ("[a[b]]", "[", 3),
    ("a**", "*", 3),
    ("+", "+", 1),
    ("a{", "a{", 1),
    ("x{2,1}", "x{2,1}", 1),
    ("x{1001}", "x{1001}", 1),
    ("x{99999999999}", "x{99999999999}", 1),
    ("(a*)*", "(a*)*", 1),
    ("^*", "^*", 1),
    (r"(a)\1", r"\1", 4),
    (r"(?<n>a)\k<n>", r"\k", 8),
    ("(?=a)b", "(?=", 1),
    ("(?!a)b", "(?!", 1),
    ("a(?<=a)b", "(?<=", 2),
    ("a(?<!b)b", "(?<!", 2),
    ("(?>a)", "(?>", 1),
    ("[^,]*+", "[^,]*+", 1),
    ("((a)b)*", "((a)b)*", 1),
    ("(?:(a)b)+", "(?:(a)b)+", 1),
])  # fmt: skip
def test_unsupported_construct_is_named_by_place(pattern: str, construct: str, place: int) -> None:
    with pytest.raises(InvalidValueError) as raised:
        translate(pattern)
    assert f"'{construct}' at character {place}: " in str(raised.value)


@pytest.mark.parametrize(("pattern", "reason"), [
    ("(" * 10_000, "nested more than 50 deep"),
    ("(?:" * 10_000, "nested more than 50 deep"),
    ("(x{100}y){100}", "unsupported: invalid repetition size: "),
    (r"\pL{100}", "unsupported: pattern too large"),
    (r"\pL{5}", "RE2 needs [0-9]{4} instructions for it, expected at most 5000"),
], ids=str.__len__)  # fmt: skip
def test_pattern_without_bounds_is_rejected(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        translate(pattern)


def test_patterns_are_matched_by_re2() -> None:
    """So a text that makes other engines backtrack for hours ends at once."""
    pattern = translate("^CN=(.*?)" + "-(.*?)" * 8 + ",OU=svc.*$").pattern
    assert type(pattern).__module__ == "re2"
    assert pattern.fullmatch("CN=" + "-" * 4000) is None


def test_groups_keep_their_numbers_and_names() -> None:
    translation = translate("(a)(?:b)(?<last>c)")
    assert translation.pattern.groups == 2
    assert translation.group_names == {"last": 2}


@pytest.mark.parametrize(("pattern", "known", "doubted", "construct"), [
    ("a$", "é\n.", "a\n", r"$ or \Z"),
    (r"a\Z", "a", "\u2028", r"$ or \Z"),
    (r"a\z", "a\n", "", None),
    (r"\B", "a\n", "é", r"\b or \B"),
    (r"[\pL]", "Éλ漢\n", "\u1c89", r"a class such as \p{L}"),  # a letter since Unicode 16
    (r"\p{Alpha}", "\u1c89", "", None),
])  # fmt: skip
def test_text_that_java_may_treat_differently_is_doubted(
    pattern: str, known: str, doubted: str, construct: str | None
) -> None:
    translation = translate(pattern)
    assert translation.find_doubt(known) is None
    assert translation.find_doubt(doubted) == construct
