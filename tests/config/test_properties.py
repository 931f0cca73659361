import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import ConfigurationError
from authorizerd.config.properties import Property, parse_override, parse_properties


def read(text: str) -> dict[str, str]:
    return {key: entry.value for key, entry in parse_properties(text, source="file").items()}


# What java.util.Properties.load of OpenJDK 17 gave for each text.
JAVA = [
    ("", {}),
    ("   ", {}),
    ("a=b", {"a": "b"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=b", {"": "b"}),
    (":", {"": ""}),
    ("a \t=  b", {"a": "b"}),
    ("\fa\f=\fb", {"a": "b"}),
    ("a b=c", {"a": "b=c"}),
    ("a = = b", {"a": "= b"}),
    ("a:b", {"a": "b"}),
    ("a=b  ", {"a": "b  "}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\:b :c", {"a:b": "c"}),
    ("a\\ b c", {"a b": "c"}),
    ("a=\\t\\r\\n\\f", {"a": "\t\r\n\f"}),
    ('a=x\\zy\\"\\0', {"a": 'xzy"0'}),
    ("a=\\u0041\\u00e9\\u00E9", {"a": "Aéé"}),
    ("a=\\u00411", {"a": "A1"}),
    ("a=\\\\u0041", {"a": "\\u0041"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),
    ("a=😀", {"a": "😀"}),
    ("\\u003d=b", {"=": "b"}),
    ("\\u0023=b", {"#": "b"}),
    ("\\#a=b", {"#a": "b"}),
    ("# x\n! y=1\n \t#z\na!b=c#d", {"a!b": "c#d"}),
    ("# c \\\na=b", {"a": "b"}),
    ("a=b\rc=d\r\ne=f", {"a": "b", "c": "d", "e": "f"}),
    ("a\x0bb=c\x85d", {"a\x0bb": "c\x85d"}),
    ("a\xa0b=c\u2028d", {"a\xa0b": "c\u2028d"}),
    ("a=1\nb=2\na=3", {"a": "3", "b": "2"}),
    ("a=b\\", {"a": "b"}),
    ("a=b\\\n", {"a": "b"}),
    ("a=b\\\n  \t", {"a": "b"}),
    ("a=b\\\n\n x", {"a": "b", "x": ""}),
    ("a=b\\\n\\\nc", {"a": "bc"}),
    ("a=b\\\n   # c", {"a": "b# c"}),
    ("a=b\\\n!c\nd=e", {"a": "b!c", "d": "e"}),
    ("a=b\\\r\n c", {"a": "bc"}),
    ("a=b\\\r  c", {"a": "bc"}),
    ("a=b\\\\\nc", {"a": "b\\", "c": ""}),
    ("a=b\\\\\\\nc", {"a": "b\\c"}),
    ("a\\\n=b", {"a": "b"}),
    ("a\\\n b", {"ab": ""}),
    ("a=b\\\n=c", {"a": "b=c"}),
    ("\\\na=b", {"a": "b"}),
    ("  \\\n  # x=y", {}),
    ("a=\\u004\\\n1", {"a": "A"}),
    ("k\\\n  e\\\n  y = v", {"key": "v"}),
]


@pytest.mark.parametrize(("text", "expected"), JAVA)
def test_text_is_read_as_by_java(text: str, expected: dict[str, str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize("text", ["\\", "\\\n", "a=b\n\\"])
def test_lone_backslash_at_the_end_sets_nothing(text: str) -> None:
    """Java sets an empty key or not, depending on how the text ends."""
    assert "" not in read(text)


def test_property_has_the_first_line_of_its_logical_line() -> None:
    """Of equal keys, the last one counts."""
    properties = parse_properties("#\r\na=1\rb=\\\n 2\n\\\n\nc=3\na=4", source="file")
    assert list(properties.values()) == [
        Property(key="a", value="4", source="file", line=8, earlier_line=2),
        Property(key="b", value="2", source="file", line=3),
        Property(key="c", value="3", source="file", line=7),
    ]


@pytest.mark.parametrize("escape", ["\\u", "\\u004", "\\u00zz", "\\u 041", "\\u٠٠٤١", "\\U0041\\u"])
def test_malformed_unicode_escape_is_rejected_with_its_line(escape: str) -> None:
    for text in (f"x=y\na={escape}", f"x=y\n{escape}=a"):
        with pytest.raises(ConfigurationError) as refusal:
            parse_properties(text, source="file")
        assert str(refusal.value) == (
            "file:2: malformed escape: expected four hexadecimal digits after \\u"
        )


@pytest.mark.parametrize(
    "text", ["a=\\ud83d", "a=\\ude00\\ud83d", "\\ud83dx\\ude00=a", "a=b\ud83d"]
)
def test_half_a_surrogate_pair_is_rejected_with_its_line(text: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_properties(text, source="file")
    assert str(refusal.value) == "file:1: expected a surrogate pair, found half of one"


def escape_all(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))


@given(
    properties=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5),
    seed=st.integers(0, 2**16),
)
def test_escaped_text_reads_back(properties: dict[str, str], seed: int) -> None:
    """With any separators, comments, line ends and continuation lines."""
    dice = random.Random(seed)
    text = ""
    for key, value in properties.items():
        text += dice.choice(["", "# x=y\n", " ! \\\r\n", "\n \f\n"])
        separator = dice.choice(["=", ":", " = ", "\t:\f", "\\\n  = "])
        folded = dice.choice(["", "\\\n \t"])
        end = dice.choice(["\n", "\r", "\r\n"])
        text += f" {escape_all(key)}{separator}{folded}{escape_all(value)}{end}"
    assert read(text) == properties


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0\x85", max_size=40))
def test_any_text_is_read_or_rejected(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    try:
        places = [entry.line for entry in parse_properties(text, source="file").values()]
    except ConfigurationError as refusal:
        places = [refusal.line]
    assert all(place is not None and 1 <= place <= lines for place in places)


def test_override_has_no_escapes() -> None:
    """The first equals sign separates."""
    assert parse_override(" a.b =c=\\u0041 ") == Property(
        key="a.b", value="c=\\u0041 ", source="--override", line=None
    )
    assert parse_override("a=").value == ""


MALFORMED = "--override: expected KEY=VALUE, found "
NOT_SHOWN = "(not shown, since it may hold a secret)"


@pytest.mark.parametrize(("override", "text"), [
    ("jaas.config hunter2", f"{MALFORMED}a text without '=' {NOT_SHOWN}"),
    ("", f"{MALFORMED}a text without '=' {NOT_SHOWN}"),
    (" =hunter2", f"{MALFORMED}a text without a key {NOT_SHOWN}"),
    ("super.users=User:\udcff", "--override: super.users: expected UTF-8"),
    ("\udcff=x", "--override: \\udcff: expected UTF-8"),
])  # fmt: skip
def test_malformed_override_is_rejected_without_its_text(override: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_override(override)
    assert str(refusal.value) == text
