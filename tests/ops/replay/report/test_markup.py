"""Text stays text, whatever it is made of."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report.markup import Markup, code_element, element, joined
from authorizerd.replay.whatif.report import shown
from tests.ops.replay.report.elements import Elements

HOSTILE = st.one_of(
    st.text(st.characters(codec=None), max_size=12),
    st.sampled_from(
        ["</td>", "<script>", '" onload="', "' x='", "&lt;", "]]>", "<!--", "\x00\x1b"]
    ),
)


@given(HOSTILE, HOSTILE)
def test_a_text_comes_back_as_it_is_shown(text: str, attribute: str) -> None:
    """By a parser of XML and by one of HTML; as a child and as an attribute."""
    made = element("p", text, element("b", text), title=attribute)
    root = ElementTree.fromstring(made)
    assert ("".join(root.itertext()), root.attrib) == (shown(text) * 2, {"title": shown(attribute)})
    assert Elements(made).tags == [("p", {"title": shown(attribute)}), ("b", {})]


@pytest.mark.parametrize(
    "character", ["\u202e", "\u200f", "\u2066", "\x1b", "\x00", "\n", "\ud800"]
)
def test_what_commands_a_screen_is_written_out(character: str) -> None:
    """A mark that turns the direction of writing would turn what stands after it."""
    made = element("p", f"a{character}b")
    assert made.isprintable()
    assert character not in made
    assert "\\" in made


def test_markup_is_not_escaped_again() -> None:
    """And only markup is taken for it."""
    assert joined([element("b", "<"), "<b>"]) == "<b>&lt;</b>&lt;b&gt;"
    assert isinstance(joined(["x"]), Markup)


def test_an_attribute_of_none_is_left_out() -> None:
    """An underscore stands for a hyphen, and behind a name for nothing."""
    made = element("p", class_=None, aria_label="x", tabindex=0)
    assert made == '<p aria-label="x" tabindex="0"></p>'


@pytest.mark.parametrize("code", ["a</script>", "<!-- b"])
def test_code_cannot_end_its_own_element(code: str) -> None:
    """Which a browser reads without looking at quotes."""
    with pytest.raises(AssertionError):
        code_element("script", code)
