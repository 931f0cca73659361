// Sorts tables by any column and searches them. The page is complete without JavaScript.
// Invariant: no cell changes, text is only ever set as text, and no row is lost.
"use strict";
const ROWS_SEARCHED_MIN = 9; // fewer rows fit on one screen
// A missing number sorts last in both directions.
function parseKey(text, kind) {
  if (kind !== "number") return text;
  const number = parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? null : number;
}
function sortRows(table, head, place) {
  // Numbers sort from the largest first, since readers look for the largest counts.
  const descending = head.getAttribute("aria-sort") === "ascending"
    || (head.dataset.kind === "number" && head.getAttribute("aria-sort") === "none");
  for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row) => (
    { row, key: parseKey(row.cells[place].textContent, head.dataset.kind) }
  ));
  const sign = descending ? -1 : 1;
  keyed.sort(({ key: one }, { key: other }) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return one < other ? -sign : one > other ? sign : 0;
  });
  body.append(...keyed.map(({ row }) => row));
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
    const words = input.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const each of entries) {
      each.row.hidden = !words.every((word) => each.text.includes(word));
      if (!each.row.hidden) count += 1;
    }
    shown.textContent = count.toLocaleString("en");
  });
  table.parentElement.before(label);
}
for (const section of document.querySelectorAll(".searchable")) {
  const table = section.querySelector("table.listing");
  if (table.tBodies[0].rows.length > 1) addSorting(table);
  if (table.tBodies[0].rows.length >= ROWS_SEARCHED_MIN) addSearch(section, table);
}
