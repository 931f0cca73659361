"""Escaping, and the tables that hold escaped names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from markupsafe import Markup

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.report.rendering import (
    CHARACTERS_MAX,
    ENVIRONMENT,
    ROWS_MAX,
    read_static,
    render_rows,
)
from tests.ops.replay.report.elements import HOSTILE, Elements, call_macro

EXAMPLE = ENVIRONMENT.from_string('<p title="{{ title }}">{{ text }}<b>{{ text }}</b></p>')


@given(HOSTILE, HOSTILE)
def test_text_and_attributes_are_escaped_for_xml_and_html(text: str, title: str) -> None:
    made = EXAMPLE.render(text=text, title=title)
    root = ElementTree.fromstring(made)
    text, title = map(escape_unprintable, (text, title))
    assert ("".join(root.itertext()), root.attrib) == (text * 2, {"title": title})
    assert Elements(made).tags == [("p", {"title": title}), ("b", {})]


@pytest.mark.parametrize("character", "\u202e\u200f\u2066\x1b\x00\n\ud800")
def test_unprintable_characters_become_escape_sequences(character: str) -> None:
    made = EXAMPLE.render(text=f"a{character}b", title="")
    assert made.isprintable()
    assert "\\" in made


def test_only_markup_is_not_escaped() -> None:
    template = ENVIRONMENT.from_string("{{ markup }}{{ text }}")
    assert template.render(markup=Markup("<b/>"), text="<b>") == "<b/>&lt;b&gt;"


def test_misspelled_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        EXAMPLE.render(text="a")


@pytest.mark.parametrize("name", ["report.css", "report.js"])
def test_static_file_cannot_end_its_element(name: str) -> None:
    """Browsers look for the end of a style or script even inside quotes."""
    assert "</" not in read_static(name)
    assert "<!--" not in read_static(name)


def test_missing_name_differs_from_an_empty_one() -> None:
    texts = (None, "", "unknown", "empty")
    assert len({call_macro("names.html.jinja", "name", text) for text in texts}) == 4


def render_row(row: object) -> Markup:
    return Markup("<tr><td>{}</td><td>1</td></tr>").format(row)


def list_rows(rows: object, total: int) -> Elements:
    columns = [("Name", "text"), ("Events", "number")]
    table = call_macro(
        "tables.html.jinja", "listing", "All", columns, rows, total, "x.json", caller=render_row
    )
    return Elements(table)


def test_long_table_ends_after_its_first_rows() -> None:
    rows = iter(range(10**6))
    page = list_rows(rows, 10**6)
    assert page.names.count("tr") == ROWS_MAX + 1
    assert next(rows) == ROWS_MAX  # no further row was asked for
    assert "1,000\n of 1,000,000 shown; 999,000 left out of this page, see x.json" in page.text


def test_table_of_long_names_ends_after_its_first_characters() -> None:
    long = "&" * 10_000
    rendered = render_rows(render_row, [long] * ROWS_MAX)
    assert len(rendered) == CHARACTERS_MAX // len(render_row(long))


def test_complete_table_does_not_mention_left_out_rows() -> None:
    assert "left out" not in list_rows(["a"], 1).text


def test_table_without_rows_is_omitted() -> None:
    assert list_rows([], 0).tags == []


def test_table_can_be_scrolled_by_keyboard() -> None:
    page = list_rows(["a"], 1)
    (box,) = (attributes for _, attributes in page.tags if "tabindex" in attributes)
    assert (box["tabindex"], box["role"], box["aria-label"]) == ("0", "region", "All")
    heads = [(head["scope"], head["data-kind"]) for head in page.attributes_of("th")]
    assert heads == [("col", "text"), ("col", "number")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_its_background(scheme: str) -> None:
    """Source: WCAG 2.2, criterion 1.4.3: a contrast of at least 4.5."""
    blocks = re.findall(r":root \{(.*?)\}", read_static("report.css"), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): #(\w+)", blocks[("light", "dark").index(scheme)]))
    texts = ("ink", "soft", "link", "good", "bad", "doubtful")
    pairs = [(text, back) for text in texts for back in ("page", "panel")]
    pairs += [("cool" if level < 5 else "hot", f"h{level}") for level in range(1, 7)]
    too_weak = [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < 4.5]
    assert not too_weak


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = (value / 255 for value in bytes.fromhex(digits))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
