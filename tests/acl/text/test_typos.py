import pytest

from authorizerd.acl.text.typos import find_similar, shorten


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("read", "READ"),
        ("read", "rea"),
        ("read", "reaad"),
        ("read", "raed"),
        ("read", "rexd"),
        ("", "a"),
    ],
)
def test_names_with_one_typo_have_a_shortened_name_in_common(name: str, other: str) -> None:
    assert not {*shorten(name)}.isdisjoint(shorten(other))


@pytest.mark.parametrize(("name", "other"), [("read", "write"), ("read", "re"), ("read", "rxxd")])
def test_names_with_more_typos_have_none_in_common(name: str, other: str) -> None:
    assert {*shorten(name)}.isdisjoint(shorten(other))


@pytest.mark.parametrize(
    ("word", "similar"),
    [("improt", "import"), ("EXPORT", "export"), ("xy", None), ("imp", None), ("a" * 99, None)],
)
def test_similar_word_is_found(word: str, similar: str | None) -> None:
    assert find_similar(word, ["export", "import", "a" * 99]) == similar
