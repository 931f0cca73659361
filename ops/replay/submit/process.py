"""Run spark-submit as a child process: sort its output, and forward signals.

**Invariant:** the child leads a process group, and the whole group has ended before a run returns.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from authorizerd.cli.program.standard_streams import check_reader
from authorizerd.replay.messages import MESSAGE, PROGRESS, STOP_FILE, TRACE

LOG_CHARACTERS_MAX: Final = 64 * 1024 * 1024

_GRACE_SECONDS: Final = 15.0
_CHECK_SECONDS: Final = 0.05
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CAUSE: Final = re.compile(r'(?:Exception in thread "main" (?:[\w.$]+: )?|Error: )(.+)')


class StoppedError(Exception):
    """A signal ended the run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Sorter:
    """Forwards each line to its destination; two threads use it, one per stream of the child.

    ``is_message_seen``: the job printed a message for the user. ``is_trace_seen``: it printed lines
    that only the log contains. ``cause`` is spark-submit's own error, if it printed one.
    """

    def __init__(self, log: IO[str], *, verbose: bool) -> None:
        self._log = log
        self._log_room = LOG_CHARACTERS_MAX
        self._verbose = verbose
        self._lock = threading.Lock()
        self._is_progress_shown = False
        self._is_terminal = sys.stderr.isatty()
        self.is_message_seen = False
        self.is_trace_seen = False
        self.cause: str | None = None

    def take_output(self, line: str) -> None:
        """Handle a line of standard output, where Spark sends both streams of a Python driver."""
        with self._lock:
            if line.startswith(PROGRESS):
                self._show_progress(line)
            elif line.startswith(MESSAGE):
                self.is_message_seen = True
                self._show(line, sys.stderr)
            elif line.startswith(TRACE):
                self.is_trace_seen = True
                self._keep(line.removeprefix(TRACE))
            else:
                self._show(line, sys.stdout)

    def take_log(self, line: str) -> None:
        """Handle a line of standard error, which only Spark itself uses."""
        with self._lock:
            found = _CAUSE.match(line)
            if found is not None and self.cause is None:
                self.cause = found[1]
            self._keep(line)

    def _keep(self, line: str) -> None:
        if self._log_room > 0:
            self._log_room -= len(line)
            self._log.write(line)
        if self._verbose:
            self._show(line, sys.stderr)

    def _show(self, line: str, to: IO[str]) -> None:
        if self._is_progress_shown:
            self._is_progress_shown = False
            sys.stderr.write("\r\x1b[K")
        to.write(line)
        to.flush()
        check_reader(to)

    def _show_progress(self, line: str) -> None:
        if self._is_terminal:
            sys.stderr.write(f"\r{line.rstrip()}\x1b[K")
            self._is_progress_shown = True
        else:
            sys.stderr.write(line)
        sys.stderr.flush()


def run_submission(
    line: Sequence[str], environment: Mapping[str, str], log: Path, *, verbose: bool
) -> tuple[int, Sorter]:
    """Run spark-submit to its end; return its exit code and the sorter of its output.

    With ``STOP_FILE`` in ``environment``, the first signal creates that file, so that the job ends
    by itself. Only a second signal stops it.

    Raises:
        StoppedError: a signal arrived; the child's process group has ended.
        OSError: spark-submit cannot be started.
    """
    with open(log, "x", encoding="utf-8") as kept, _recording_signals() as received:
        sorter = Sorter(kept, verbose=verbose)
        child = subprocess.Popen(
            line,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a group of its own, which _end_group can kill
        )
        assert child.stdout is not None
        assert child.stderr is not None
        readers = [
            threading.Thread(target=_read, args=(child, child.stdout, sorter.take_output)),
            threading.Thread(target=_read, args=(child, child.stderr, sorter.take_log)),
        ]
        try:
            for reader in readers:
                reader.start()
            code = _wait(child, received, environment.get(STOP_FILE))
        finally:
            _end_group(child)
            for reader in readers:
                reader.join()
        return code, sorter


def _read(child: subprocess.Popen[str], stream: IO[str], take: Callable[[str], None]) -> None:
    """Handle each line; end the child if the output or the log cannot be written."""
    with stream:
        try:
            for line in stream:
                take(line)
        except OSError:
            child.terminate()


@contextmanager
def _recording_signals() -> Iterator[list[int]]:
    """Yield a list of received signals: a handler that raised could keep the child from ending."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in _SIGNALS
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(child: subprocess.Popen[str], received: list[int], stop_file: str | None) -> int:
    """Return the child's exit code, or react to signals while it runs.

    ``child.wait()`` would not notice a signal that arrives just before its system call until the
    child ends.

    Raises:
        StoppedError: a signal arrived, or with ``stop_file`` a second one.
    """
    while (code := child.poll()) is None:
        if received and stop_file is not None:
            Path(stop_file).touch()
            stop_file = None
            del received[0]
        if received:
            raise StoppedError(received[0])
        time.sleep(_CHECK_SECONDS)
    return code


def _end_group(child: subprocess.Popen[str]) -> None:
    """End the child, gracefully if it reacts in time, and the rest of its process group."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
