"""The command that writes a report, its escaping, and the tables that hold escaped names."""

import json
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from authorizerd.replay.cli import main
from authorizerd.replay.report.rendering import (
    CHARACTERS_MAX,
    ENVIRONMENT,
    ROWS_MAX,
    read_static,
    render_rows,
)
from tests.ops.replay.report.elements import Elements, call_macro
from tests.ops.replay.report.examples import KINDS, write_results
from tests.support.printed import Printed, run_main


def test_only_markup_is_printed_as_it_is() -> None:
    template = ENVIRONMENT.from_string("{{ markup }}{{ text }}")
    assert template.render(markup=Markup("<b/>\n"), text="<b>\n") == "<b/>\n&lt;b&gt;\\n"
    with pytest.raises(UndefinedError):  # a misspelled name
        template.render(text="a")


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


def test_long_table_ends_after_its_first_rows_or_characters() -> None:
    rows = iter(range(10**6))
    page = list_rows(rows, 10**6)
    assert page.names.count("tr") == ROWS_MAX + 1
    assert next(rows) == ROWS_MAX  # no further row was asked for
    assert "1,000\n of 1,000,000 shown; 999,000 left out of this page, see x.json" in page.text
    long = "&" * 10_000
    rendered = render_rows(render_row, [long] * ROWS_MAX)
    assert len(rendered) == CHARACTERS_MAX // len(render_row(long))


def test_table_can_be_scrolled_by_keyboard_and_is_omitted_without_rows() -> None:
    page = list_rows(["a"], 1)
    assert "left out" not in page.text
    (box,) = (attributes for _, attributes in page.tags if "tabindex" in attributes)
    assert (box["tabindex"], box["role"], box["aria-label"]) == ("0", "region", "All")
    heads = [(head["scope"], head["data-kind"]) for head in page.attributes_of("th")]
    assert heads == [("col", "text"), ("col", "number")]
    assert list_rows([], 0).tags == []


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_its_background(scheme: int) -> None:
    """Source: WCAG 2.2, criterion 1.4.3: a contrast of at least 4.5."""
    pattern = r"--(\w+): var\(--light, #(\w+)\) var\(--dark, #(\w+)\);"
    pairs_of = re.findall(pattern, read_static("report.css"))
    colours = {name: pair[scheme] for name, *pair in pairs_of}
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
    out = tmp_path / "friday.html"
    report(tmp_path, "--out", out)
    assert out.read_bytes() == first
    assert out.with_suffix(".json").read_bytes() == (tmp_path / "report.json").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_names_cannot_control_the_terminal_and_stay_unchanged_in_the_json(tmp_path: Path) -> None:
    write_results(tmp_path, "\x1b[2J\u202e\r\nwrote all</script>")
    out = report(tmp_path).out
    assert all(line.isprintable() for line in out.split("\n"))
    assert "\\x1b[2J\\u202e\\r\\nwrote all" in out
    document = json.loads((tmp_path / "report.json").read_text())
    assert list(document) == ["version", "findings", "files", "results"]
    assert (document["version"], document["findings"][0]["state"]) == (1, "bad")
    for kind in KINDS:
        assert document["results"][kind] == json.loads((tmp_path / f"{kind}.json").read_text())
        assert document["files"][kind]["path"] == f"{kind}.json"


@pytest.mark.parametrize(("out", "said"), [
    *((name, "--out: ") for name in
      ("whatif.html", "load.json", "ingest.htm", "page", "x.json", "/")),
    ("no-such/page.html", "no-such/page.json: No such file or directory"),
    ("directory.html", "directory.html: Is a directory"),
])  # fmt: skip
def test_out_that_cannot_be_written_is_named_and_changes_no_result(
    tmp_path: Path, out: str, said: str
) -> None:
    write_results(tmp_path)
    (tmp_path / "directory.html").mkdir()
    results = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    (line,) = report(tmp_path, "--out", tmp_path / out, code=1).err.splitlines()
    assert line.startswith("authorizerd replay: ")
    assert said in line
    assert {path: path.read_bytes() for path in results} == results
    new = {path.name for path in tmp_path.iterdir() if path not in results}
    assert new <= {"directory.html", "directory.json"}


def test_difference_of_two_runs_is_written_beside_the_later(tmp_path: Path) -> None:
    thursday, friday = tmp_path / "1" / "thursday", tmp_path / "2" / "friday"
    write_results(thursday, "User:a")
    write_results(friday, "User:b")
    lines = report(friday, "--against", thursday).out.splitlines()
    assert lines[0] == "• inputs: The inputs differ"
    assert "✗ whatif: 1 distinct request newly denied only in friday" in lines
    assert "<title>friday against thursday</title>" in (friday / "difference.html").read_text()
    document = json.loads((friday / "difference.json").read_text())
    assert list(document) == ["version", "findings", "difference"]
    assert document["difference"]["was"]["name"] == "thursday"
    assert set(document["difference"]["results"]) == set(KINDS)
    assert not list(thursday.glob("difference.*"))
    # Runs of the same name are named by their paths.
    thursday = thursday.rename(tmp_path / "1" / "friday")
    report(friday, "--against", thursday)
    document = json.loads((friday / "difference.json").read_text())
    names = [document["difference"][side]["name"] for side in ("was", "now")]
    assert names == [str(thursday), str(friday)]
    assert "expected another directory than --run" in (
        report(friday, "--against", f"{friday}/.", code=1).err
    )
