"""The layout of ``ls`` on a terminal: names in columns, read from top to bottom.

Source: Kafka 4.3 LsCommandHandler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_COLUMN_WIDTH_MIN = 4
_GAP = 2


def lay_out(names: Sequence[str], width: int | None) -> Iterator[str]:
    """Yield the lines that show the names.

    Args:
        width: of the terminal, in characters; None prints one name a line.
    """
    rows, widths = _fit(names, width)
    for row in range(rows):
        cells = names[row::rows]
        *others, last = [
            cell.ljust(column_width) for cell, column_width in zip(cells, widths, strict=False)
        ]
        # Kafka pads a cell if a column follows it, even one that ends above this row.
        is_last_column = len(cells) == len(widths)
        yield "".join((*others, cells[-1] if is_last_column else last))


def _fit(names: Sequence[str], width: int | None) -> tuple[int, list[int]]:
    """Return the number of rows, and the width of each column, for as many columns as fit."""
    widest = (width or 0) // _COLUMN_WIDTH_MIN
    for count in range(min(widest, len(names)), 1, -1):
        rows = -(-len(names) // count)
        widths = [
            max(map(len, names[start : start + rows])) + _GAP
            for start in range(0, len(names), rows)
        ]
        if len(widths) == count and sum(widths) <= (width or 0):
            return rows, widths
    return len(names), [0]
