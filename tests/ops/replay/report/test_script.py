"""What tables do in a browser, where there is something to run it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from authorizerd.replay.report.script import SCRIPT

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which runs the script, is not here")

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
    words = [NODE, str(path), *map(json.dumps, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def driven(tmp_path: Path, lines: list[list[str]], what: str) -> Any:  # noqa: ANN401 - as printed
    """Return ``what``, said of a table of names and counts that the script has taken over."""
    heads = [["Name", "text"], ["Events", "number"]]
    script = f"{TABLE}\n{{{SCRIPT}}}\nconsole.log(JSON.stringify({what}));"
    return run(tmp_path, script, [heads, lines])


COUNTS = ["9", "1,000", "–", "20", *["9"] * 6]
LINES = [[name, count] for name, count in zip("bdacefghij", COUNTS, strict=True)]


def test_numbers_are_sorted_as_numbers_and_the_missing_last(tmp_path: Path) -> None:
    """The most first, then the least; equal ones keep their order; the column says which way."""
    said = driven(
        tmp_path,
        LINES[:5],
        "[press(1), column(1), order(), press(1), column(1), order(), column(0)]",
    )
    _, down, down_order, _, up, up_order, names = said
    assert down == ["1,000", "20", "9", "9", "–"]
    assert down_order == ["none", "descending"]
    assert up == ["9", "9", "20", "1,000", "–"]
    assert up_order == ["none", "ascending"]
    assert names == ["b", "e", "c", "d", "a"]


def test_text_is_sorted_from_its_first_letter(tmp_path: Path) -> None:
    """And back; another column loses its order."""
    said = driven(
        tmp_path, LINES[:4], "[press(1), press(0), column(0), press(0), column(0), order()]"
    )
    assert said[2] == ["a", "b", "c", "d"]
    assert said[4:] == [["d", "c", "b", "a"], ["descending", "none"]]


def test_a_search_shows_the_rows_with_all_of_its_words(tmp_path: Path) -> None:
    """In any column, in any case; their number is said; nothing typed shows all."""
    lines = [["User:Alice <b>", "5"], ["User:bob", "15"], *([["x", "1"]] * 7)]
    said = driven(tmp_path, lines, "[search('ALICE 5'), search('5'), search('no'), search('  ')]")
    assert said[:3] == [
        ["1", ["User:Alice <b>"]],
        ["2", ["User:Alice <b>", "User:bob"]],
        ["0", []],
    ]
    assert said[3][0] == "9"


def test_a_few_rows_need_no_search(tmp_path: Path) -> None:
    """They are seen at a glance; one row needs no order either."""
    assert driven(tmp_path, LINES[:8], "[box.added ?? null, order()[0]]") == [None, "none"]
    assert driven(tmp_path, LINES[:1], "[head.cells[0].children.length]") == [0]


def test_the_functions_can_be_had_without_a_page(tmp_path: Path) -> None:
    """They are exported where there is no document."""
    said = run(tmp_path, f"{SCRIPT}\nconsole.log(JSON.stringify(Object.keys(module.exports)));")
    assert said == ["keyOf", "compared", "ordered", "wordsOf", "matches"]
