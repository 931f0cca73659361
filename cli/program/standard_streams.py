"""Standard output and standard error of a command whose reader may leave early.

**Invariant:** a reader that stops early (``authorizerd doctor | head``) changes neither the
command's work nor its exit code. If output is lost for another reason, such as a full disk, the
command ends with a one-line error. A stream that is closed at startup is treated as having no
reader, and no file that the command opens gets its descriptor.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TYPE_CHECKING, Final, TextIO

from authorizerd.config.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_STDOUT: Final = 1
_STDERR: Final = 2


class _OutputFile(io.FileIO):
    """A file descriptor that drops all writes after one has failed."""

    def __init__(self, descriptor: int, name: str) -> None:
        # Keep the descriptor open: otherwise the next opened file would get it.
        super().__init__(descriptor, "wb", closefd=False)
        self._stream_name = name
        self.is_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, unless the reader is gone.

        Raises:
            OutputError: the write fails for another reason (only the first time).
        """
        if not self.is_lost:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.is_lost = True
            except OSError as error:
                self.is_lost = True
                raise OutputError(f"{self._stream_name}: {error.strerror or error}") from error
        # Report the data as written: otherwise the buffer would keep it and retry.
        return memoryview(data).nbytes


def tolerate_lost_readers() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``, until the process ends."""
    _fill_closed_descriptors()
    sys.stdout = _tolerant(sys.stdout, _STDOUT, "standard output")
    sys.stderr = _tolerant(sys.stderr, _STDERR, "standard error")


def check_reader(stream: IO[str]) -> None:
    """Raise BrokenPipeError if a stream's output is dropped because its reader is gone."""
    file = getattr(getattr(stream, "buffer", None), "raw", None)
    if isinstance(file, _OutputFile) and file.is_lost:
        raise BrokenPipeError


def _fill_closed_descriptors() -> None:
    """Open the null device for each closed standard stream.

    Otherwise the next opened file, such as the log, would receive the output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        # Child processes inherit standard streams, but not the descriptors that `os.open` returns.
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _tolerant(stream: TextIO | None, descriptor: int, name: str) -> TextIO:
    """Return a stream on the same descriptor. ``stream`` is None if it was closed at startup."""
    if stream is None:
        stream = io.TextIOWrapper(io.FileIO(descriptor, "wb", closefd=False), encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_OutputFile(stream.fileno(), name)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
