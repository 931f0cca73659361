"""The command that writes a report, its escaping, and the tables that hold escaped names."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from markupsafe import Markup

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.cli import main
from authorizerd.replay.report.rendering import (
    CHARACTERS_MAX,
    ENVIRONMENT,
    ROWS_MAX,
    read_static,
    render_rows,
)
from tests.ops.replay.report.elements import HOSTILE, Elements, call_macro
from tests.ops.replay.report.examples import KINDS, write_results
from tests.support.printed import Printed, run_main

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
    assert not [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < 4.5]


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


def report(run: Path, *options: str | Path, code: int = 0) -> Printed:
    return run_main("report", "--run", run, *options, code=code, main=main)


def test_page_and_json_are_written_and_summarised(tmp_path: Path) -> None:
    write_results(tmp_path)
    lines = report(tmp_path).out.splitlines()
    assert lines[0] == (
        "✗ whatif: 12 recorded requests (1 distinct) of 1 principal would be newly denied"
    )
    assert lines[-2].startswith(f"wrote {tmp_path}/report.html: ")
    first = (tmp_path / "report.html").read_bytes()
    assert Elements(first.decode()).names[0] == "html"
    report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == first
    assert not list(tmp_path.glob(".*"))


def test_json_has_the_findings_and_the_unchanged_results(tmp_path: Path) -> None:
    write_results(tmp_path, "User:\u202e</script>")
    report(tmp_path)
    document = json.loads((tmp_path / "report.json").read_text())
    assert list(document) == ["version", "findings", "files", "results"]
    assert document["version"] == 1
    assert document["findings"][0]["state"] == "bad"
    for kind in KINDS:
        assert document["results"][kind] == json.loads((tmp_path / f"{kind}.json").read_text())
        assert document["files"][kind]["path"] == f"{kind}.json"


def test_out_names_another_page_and_its_json(tmp_path: Path) -> None:
    write_results(tmp_path / "run")
    out = tmp_path / "friday.html"
    report(tmp_path / "run", "--out", out)
    assert out.exists()
    assert out.with_suffix(".json").exists()
    assert not list((tmp_path / "run").glob("report.*"))


@pytest.mark.parametrize("name", ["whatif.html", "load.json", "ingest.htm", "page", "x.json", "/"])
def test_out_that_is_a_result_or_not_html_is_rejected(tmp_path: Path, name: str) -> None:
    write_results(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    printed = report(tmp_path, "--out", tmp_path / name, code=1)
    assert printed.err.startswith("authorizerd replay: --out: ")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("out", "expected"), [
    ("no-such/page.html", "no-such/page.json: No such file or directory"),
    ("directory.html", "directory.html: Is a directory"),
])  # fmt: skip
def test_unwritable_file_is_named_and_nothing_half_written_is_left(
    tmp_path: Path, out: str, expected: str
) -> None:
    write_results(tmp_path)
    (tmp_path / "directory.html").mkdir()
    (line,) = report(tmp_path, "--out", tmp_path / out, code=1).err.splitlines()
    assert line.endswith(expected)
    assert not list(tmp_path.glob(".*"))


def test_names_cannot_control_the_terminal(tmp_path: Path) -> None:
    write_results(tmp_path, "\x1b[2J\u202e\r\nwrote all")
    out = report(tmp_path).out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\\x1b[2J\\u202e\\r\\nwrote all" in out


def test_difference_of_two_runs_is_written_beside_the_later(tmp_path: Path) -> None:
    write_results(tmp_path / "thursday", "User:a")
    write_results(tmp_path / "friday", "User:b")
    lines = report(tmp_path / "friday", "--against", tmp_path / "thursday").out.splitlines()
    assert lines[0] == "• inputs: The inputs differ"
    assert "✗ whatif: 1 distinct request newly denied only in friday" in lines
    page = (tmp_path / "friday" / "difference.html").read_text()
    assert "<title>friday against thursday</title>" in page
    document = json.loads((tmp_path / "friday" / "difference.json").read_text())
    assert list(document) == ["version", "findings", "difference"]
    assert document["difference"]["was"]["name"] == "thursday"
    assert set(document["difference"]["results"]) == set(KINDS)
    assert not list((tmp_path / "thursday").glob("difference.*"))


def test_runs_of_the_same_name_are_named_by_their_paths(tmp_path: Path) -> None:
    for week in ("1", "2"):
        write_results(tmp_path / week / "friday")
    report(tmp_path / "2" / "friday", "--against", tmp_path / "1" / "friday")
    difference = json.loads((tmp_path / "2" / "friday" / "difference.json").read_text())
    names = [difference["difference"][side]["name"] for side in ("was", "now")]
    assert names == [f"{tmp_path}/1/friday", f"{tmp_path}/2/friday"]


def test_run_against_itself_is_rejected(tmp_path: Path) -> None:
    write_results(tmp_path)
    printed = report(tmp_path, "--against", f"{tmp_path}/.", code=1)
    assert "expected another directory than --run" in printed.err
