"""What tables do where there is JavaScript: sort by any column, and search.

**Invariant:** it changes no cell. Text is only ever set as text, and no row is thrown away. Its
functions that touch no page are exported to whoever loads it elsewhere.
"""

from __future__ import annotations

from typing import Final

SCRIPT: Final = """
"use strict";
const FEW = 8; // rows that are seen at a glance
// A missing number stands last, whichever way a column is sorted.
function keyOf(text, kind) {
  if (kind !== "number") return text;
  const number = parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? null : number;
}
function compared(one, other) {
  if (typeof one === "number") return one - other;
  return one < other ? -1 : one > other ? 1 : 0;
}
function ordered(keys, descending) {
  const sign = descending ? -1 : 1;
  return keys.map((key, place) => ({ key, place })).sort((one, other) => {
    if (one.key === null || other.key === null) {
      return (one.key === null) - (other.key === null) || one.place - other.place;
    }
    return sign * compared(one.key, other.key) || one.place - other.place;
  }).map((each) => each.place);
}
function wordsOf(text) {
  return text.toLowerCase().split(/\\s+/).filter((word) => word !== "");
}
function matches(text, words) {
  return words.every((word) => text.includes(word));
}
function sortRows(table, head, place) {
  const descending = head.getAttribute("aria-sort") === "ascending"
    || (head.dataset.kind === "number" && head.getAttribute("aria-sort") === "none");
  for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const keys = rows.map((row) => keyOf(row.cells[place].textContent, head.dataset.kind));
  body.append(...ordered(keys, descending).map((number) => rows[number]));
}
function addSorting(table) {
  Array.from(table.tHead.rows[0].cells).forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortRows(table, head, place));
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
  });
}
function addSearch(section, table) {
  const said = Array.from(table.tBodies[0].rows, (row) => ({
    row,
    text: Array.from(row.cells, (cell) => cell.textContent).join("\\n").toLowerCase(),
  }));
  const input = document.createElement("input");
  input.type = "search";
  const label = document.createElement("label");
  label.className = "search";
  label.append("Search", input);
  const shown = section.querySelector(".shown");
  input.addEventListener("input", () => {
    const words = wordsOf(input.value);
    let count = 0;
    for (const each of said) {
      each.row.hidden = !matches(each.text, words);
      if (!each.row.hidden) count += 1;
    }
    shown.textContent = count.toLocaleString("en");
  });
  table.parentElement.before(label);
}
if (typeof document !== "undefined") {
  for (const section of document.querySelectorAll(".searchable")) {
    const table = section.querySelector("table.listing");
    if (table.tBodies[0].rows.length > 1) addSorting(table);
    if (table.tBodies[0].rows.length > FEW) addSearch(section, table);
  }
} else {
  module.exports = { keyOf, compared, ordered, wordsOf, matches };
}
""".strip()
