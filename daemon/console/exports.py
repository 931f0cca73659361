"""Files that visitors download: the rows of a table as CSV, or as lines of JSON.

**Invariant:** a file has every row, or the download fails: the browser sees that it is incomplete.
No cell of a CSV file is a formula for a spreadsheet.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from io import StringIO
from typing import Final, TypeAlias, TypeVar

import msgspec
import trio

from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.console.errors import LoggedOutError, QuestionRefusedError
from authorizerd.daemon.console.tables import Cells, RowSelection
from authorizerd.daemon.console.visits import Visit
from authorizerd.daemon.errors import ClosingError
from authorizerd.protocol.http.messages import LINES
from authorizerd.protocol.http.streamed import Send, StreamedResponse

T = TypeVar("T")

Add: TypeAlias = Callable[[Sequence[T]], Awaitable[None]]
"""Takes the next rows."""
Read: TypeAlias = Callable[[Add[T]], Awaitable[object]]
"""Passes on all rows, some at a time."""

CSV_SUFFIX: Final = ".csv"
LINES_SUFFIX: Final = ".jsonl"
STALL_SECONDS: Final = 30.0
READING_SECONDS: Final = 60.0
BYTES_PER_SECOND_MIN: Final = 64 * 1024
"""A visitor may take ``READING_SECONDS`` to read a download, and more for each byte of it."""
_FORMULA: Final = "=+@-\uff1d\uff0b\uff0d\uff20"
"""The first characters of formulas, also in full width."""
_SIGNS: Final = re.escape(_FORMULA)
_AFTER_SEPARATOR: Final = re.compile(rf"([;\t\r\n])(?=[^\w';\t\r\n{_SIGNS}]*[{_SIGNS}])")
_CSV: Final = "text/csv; charset=utf-8"
_encode: Final = msgspec.json.Encoder().encode


class _Sender:
    """Send a download in parts, and end it if its visitor reads too slowly.

    Only the time in which the visitor reads counts, so the download of a large set may take longer.
    """

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self._waiting: Final[list[bytes]] = []
        self._bytes = 0
        self._seconds_left = READING_SECONDS

    async def add(self, data: bytes) -> None:
        """Send data, together with other data if there is little.

        Raises:
            ClosingError: the visitor has read too slowly.
        """
        self._waiting.append(data)
        self._bytes += len(data)
        if self._bytes >= SEND_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Send what waits. Raises as ``add``."""
        data, begun = b"".join(self._waiting), trio.current_time()
        self._waiting.clear()
        self._bytes = 0
        self._seconds_left += len(data) / BYTES_PER_SECOND_MIN
        # A part that took too long may still have been sent, such as while the machine was paused.
        with trio.move_on_after(max(0.0, self._seconds_left)) as limit:
            await self._send(data)
        if limit.cancelled_caught:
            raise ClosingError("a download from the console ended early: it was read too slowly")
        self._seconds_left -= trio.current_time() - begun


def export(
    name: str,
    visit: Visit,
    columns: Iterable[str],
    cells: Callable[[T], Cells],
    read: Read[T],
    close: Callable[[], None] = lambda: None,
) -> StreamedResponse:
    """Return a file with the rows that a visit asks for, as CSV or as lines of JSON.

    The path that was visited ends with the format. CSV begins with a line of column names.

    Args:
        name: of the file, without the format.
        close: called at the end, also if ``read`` is not called.
    """
    is_selected = RowSelection(visit.parameters.get("search", ""))
    is_csv = visit.request.path.endswith(CSV_SUFFIX)

    async def write(send: Send) -> None:
        sender = _Sender(send)

        async def add(rows: Sequence[T]) -> None:
            some = [(row, texts) for row in rows if is_selected(texts := cells(row))]
            data = encode_csv(texts for _, texts in some) if is_csv else _encode_lines(some)
            await sender.add(data)

        if is_csv:
            await sender.add(encode_csv([tuple(columns)]))
        try:
            await read(add)
            await sender.flush()
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
    apostrophe. So does a part of a cell after a character that some spreadsheets take as a
    separator, and a cell whose first character a spreadsheet may drop.

    Source: OWASP, CSV Injection.
    """
    text = StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([*map(_defuse, row)])
    return text.getvalue().encode()


def _defuse(cell: str) -> str:
    """Return a cell without formulas."""
    if cell.isalnum():
        return cell
    cell = _AFTER_SEPARATOR.sub(r"\1'", cell)
    first = cell[:1]
    is_odd = first.isspace() or not first.isprintable()
    return f"'{cell}" if is_odd or (first and first in _FORMULA) else cell


def _encode_lines(rows: Iterable[tuple[object, Cells]]) -> bytes:
    return b"".join([_encode(row) + b"\n" for row, _ in rows])
