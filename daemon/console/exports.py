"""Files that visitors download: the rows of a table as CSV, or as lines of JSON.

**Invariant:** a file has every row, or the download fails: the browser sees that it is incomplete.
No cell of a CSV file is a formula for a spreadsheet.
"""

from __future__ import annotations

import csv
from collections.abc import Awaitable, Callable, Iterable, Sequence
from io import StringIO
from typing import Final, TypeAlias, TypeVar

import msgspec

from authorizerd.daemon.console.errors import LoggedOutError, QuestionRefusedError
from authorizerd.daemon.console.tables import ReadCells, RowSelection
from authorizerd.daemon.console.visits import Visit
from authorizerd.daemon.errors import ClosingError
from authorizerd.protocol.http.endpoints import LINES
from authorizerd.protocol.http.streamed import Send, StreamedResponse

T = TypeVar("T")

Add: TypeAlias = Callable[[Sequence[T]], Awaitable[None]]
"""Takes the next rows."""
Read: TypeAlias = Callable[[Add[T]], Awaitable[object]]
"""Passes on all rows, some at a time."""

CSV_SUFFIX: Final = ".csv"
LINES_SUFFIX: Final = ".jsonl"
STALL_SECONDS: Final = 30.0
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_CSV: Final = "text/csv; charset=utf-8"
_encode: Final = msgspec.json.Encoder().encode


def export(
    name: str,
    visit: Visit,
    columns: Iterable[str],
    cells: ReadCells,
    read: Read[T],
    close: Callable[[], None] = lambda: None,
) -> StreamedResponse:
    """Return a file with the rows that a visit asks for, as CSV or as lines of JSON.

    The path that was visited ends with the format. CSV begins with a line of column names.

    Args:
        name: of the file, without the format.
        close: called at the end, also if ``read`` is not called.
    """
    select = RowSelection(cells, visit.parameters.get("search", ""))
    is_csv = visit.request.path.endswith(CSV_SUFFIX)

    async def write(send: Send) -> None:
        async def add(rows: Sequence[T]) -> None:
            some = select(rows)
            await send(encode_csv(map(cells, some)) if is_csv else _encode_lines(some))

        if is_csv:
            await send(encode_csv([tuple(columns)]))
        try:
            await read(add)
        except (QuestionRefusedError, LoggedOutError) as error:
            raise ClosingError(f"a download from the console ended early: {error}") from error

    suffix, content_type = (CSV_SUFFIX, _CSV) if is_csv else (LINES_SUFFIX, LINES)
    return StreamedResponse(
        write=write,
        close=close,
        content_type=content_type,
        headers=(
            (b"Content-Disposition", f'attachment; filename="{name}{suffix}"'.encode()),
            (b"Cache-Control", b"no-store"),
        ),
        stall_seconds=STALL_SECONDS,
    )


def encode_csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Return lines of CSV.

    A spreadsheet would compute a cell that begins like a formula, so such a cell begins with an
    apostrophe. Source: OWASP, CSV Injection.
    """
    text = StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([f"'{each}" if each.startswith(_FORMULA) else each for each in row])
    return text.getvalue().encode()


def _encode_lines(rows: Iterable[object]) -> bytes:
    return b"".join([_encode(row) + b"\n" for row in rows])
