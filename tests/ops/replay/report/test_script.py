"""The report's JavaScript, run by Node.js with a small stand-in for the document."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from authorizerd.replay.report.rendering import read_static
from tests.support.programs import output_of

NODE = shutil.which("node")
SCRIPT = read_static("report.js")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

TABLE = """
class Element {
  constructor(tag) { Object.assign(this, { tag, children: [], attributes: {}, dataset: {},
    listeners: {}, text: "", value: "", hidden: false, rows: [], cells: [] }); }
  get textContent() { return this.text + this.children.map((each) => each.textContent).join(""); }
  set textContent(text) { this.children = []; this.text = text; }
  set innerHTML(_) { throw new Error("markup"); }
  setAttribute(name, value) { this.attributes[name] = value; }
  getAttribute(name) { return this.attributes[name]; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  replaceChildren(...children) { this.text = ""; this.children = children; }
  before(...added) { this.added = added; }
  append(...added) {
    if (this.rows.length) this.rows = this.rows.filter((row) => !added.includes(row)).concat(added);
    else this.children.push(...added.filter((each) => each instanceof Element));
  }
  querySelector(selector) { return selector === ".shown" ? this.shown : this.table; }
}
const cell = (text) => Object.assign(new Element("td"), { text });
const row = (cells) => Object.assign(new Element("tr"), { cells });
const [heads, lines] = JSON.parse(process.argv[2]);
const table = new Element("table"), box = new Element("div"), section = new Element("section");
const head = row(heads.map(([title, kind]) => {
  const made = cell(title); made.dataset.kind = kind; return made; }));
const body = Object.assign(new Element("tbody"), {
  rows: lines.map((line) => row(line.map(cell))) });
Object.assign(table, { tHead: { rows: [head] }, tBodies: [body], parentElement: box });
Object.assign(section, { table, shown: new Element("span") });
globalThis.document = { querySelectorAll: () => [section],
  createElement: (tag) => new Element(tag) };
const press = (place) => head.cells[place].children[0].listeners.click();
const column = (place) => body.rows.filter((each) => !each.hidden)
  .map((each) => each.cells[place].textContent);
const order = () => head.cells.map((each) => each.getAttribute("aria-sort"));
const search = (text) => {
  const input = box.added[0].children[0];
  input.value = text;
  input.listeners.input();
  return [section.shown.textContent, column(0)];
};
"""


def run(tmp_path: Path, script: str, *arguments: object) -> Any:  # noqa: ANN401 - as printed
    assert NODE is not None
    path = tmp_path / "test.cjs"
    path.write_text(script, encoding="utf-8")
    return json.loads(output_of(NODE, path, *map(json.dumps, arguments)))


def drive(tmp_path: Path, lines: list[list[str]], expression: str) -> Any:  # noqa: ANN401 - as printed
    """Return ``expression`` after the script has taken over a table of names and counts."""
    heads = [["Name", "text"], ["Events", "number"]]
    script = f"{TABLE}\n{{{SCRIPT}}}\nconsole.log(JSON.stringify({expression}));"
    return run(tmp_path, script, [heads, lines])


COUNTS = ["9", "1,000", "–", "20", *["9"] * 6]
LINES = [[name, count] for name, count in zip("bdacefghij", COUNTS, strict=True)]


@pytest.mark.parametrize(("lines", "expression", "expected"), [
    # Numbers sort by value, the largest first, and a missing number is always last.
    (5, "(press(1), [...column(1), ...order()])", "1,000 20 9 9 – none descending"),
    (5, "(press(1), press(1), [...column(1), ...order()])", "9 9 20 1,000 – none ascending"),
    (5, "(press(1), press(1), column(0))", "b e c d a"),  # equal numbers keep their order
    # Text sorts from the first letter, and the other column loses its order.
    (4, "(press(1), press(0), [...column(0), ...order()])", "a b c d ascending none"),
    (4, "(press(0), press(0), [...column(0), ...order()])", "d c b a descending none"),
    # Few rows have no search, and a single row has no order.
    (8, "[box.added === undefined, ...order()]", "True none none"),
    (1, "[head.cells[0].children.length]", "0"),
])  # fmt: skip
def test_pressed_column_sorts(tmp_path: Path, lines: int, expression: str, expected: str) -> None:
    assert " ".join(map(str, drive(tmp_path, LINES[:lines], expression))) == expected


def test_search_shows_the_rows_with_all_words(tmp_path: Path) -> None:
    lines = [["User:Alice <b>", "5"], ["User:bob", "15"], *([["x", "1"]] * 7)]
    found = drive(tmp_path, lines, "[search('ALICE 5'), search('5'), search('no'), search('  ')]")
    assert found[:3] == [
        ["1", ["User:Alice <b>"]],
        ["2", ["User:Alice <b>", "User:bob"]],
        ["0", []],
    ]
    assert found[3][0] == "9"


def test_functions_are_exported_without_a_document(tmp_path: Path) -> None:
    script = f"{SCRIPT}\nconsole.log(JSON.stringify(Object.keys(module.exports)));"
    assert run(tmp_path, script) == ["parseKey", "compare", "sortPlaces", "splitWords", "matches"]
