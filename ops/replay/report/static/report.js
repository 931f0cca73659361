// Sorts tables by any column and searches them. The page is complete without JavaScript.
// Invariant: no cell changes, text is only ever set as text, and no row is lost.
// Without a document (in tests), the functions that do not touch the page are exported.
"use strict";
const ROWS_SEARCHED_MIN = 9; // fewer rows fit on one screen
// A missing number sorts last in both directions.
function parseKey(text, kind) {
  if (kind !== "number") return text;
  const number = parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? null : number;
}
function compare(one, other) {
  if (typeof one === "number") return one - other;
  return one < other ? -1 : one > other ? 1 : 0;
}
function sortPlaces(keys, descending) {
  const sign = descending ? -1 : 1;
  return keys.map((key, place) => ({ key, place })).sort((one, other) => {
    if (one.key === null || other.key === null) {
      return (one.key === null) - (other.key === null) || one.place - other.place;
    }
    return sign * compare(one.key, other.key) || one.place - other.place;
  }).map((each) => each.place);
}
function splitWords(text) {
  return text.toLowerCase().split(/\s+/).filter((word) => word !== "");
}
function matches(text, words) {
  return words.every((word) => text.includes(word));
}
function sortRows(table, head, place) {
  // Numbers sort from the largest first, since readers look for the largest counts.
  const descending = head.getAttribute("aria-sort") === "ascending"
    || (head.dataset.kind === "number" && head.getAttribute("aria-sort") === "none");
  for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const keys = rows.map((row) => parseKey(row.cells[place].textContent, head.dataset.kind));
  body.append(...sortPlaces(keys, descending).map((number) => rows[number]));
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
  const entries = Array.from(table.tBodies[0].rows, (row) => ({
    row,
    text: Array.from(row.cells, (cell) => cell.textContent).join("\n").toLowerCase(),
  }));
  const input = document.createElement("input");
  input.type = "search";
  const label = document.createElement("label");
  label.className = "search";
  label.append("Search", input);
  const shown = section.querySelector(".shown");
  input.addEventListener("input", () => {
    const words = splitWords(input.value);
    let count = 0;
    for (const each of entries) {
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
    if (table.tBodies[0].rows.length >= ROWS_SEARCHED_MIN) addSearch(section, table);
  }
} else {
  module.exports = { parseKey, compare, sortPlaces, splitWords, matches };
}
