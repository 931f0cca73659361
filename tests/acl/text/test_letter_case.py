"""Upper and lower case of ASCII letters."""

from string import ascii_lowercase, ascii_uppercase

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.text.letter_case import ascii_lower, ascii_upper


@given(st.text(st.sampled_from("aZ_\u0131\u017f\u212a\u00df\u00e9\u0130") | st.characters()))
def test_only_ascii_letters_change(text: str) -> None:
    """The length is unchanged, and no other character becomes an ASCII letter."""
    for change, source, target in (
        (ascii_upper, ascii_lowercase, ascii_uppercase),
        (ascii_lower, ascii_uppercase, ascii_lowercase),
    ):
        changed = change(text)
        assert len(changed) == len(text)
        for before, after in zip(text, changed, strict=True):
            assert after == (target[source.index(before)] if before in source else before)
