"""Count the work of an input, and the paths that it takes, line by line.

A *path* is a pair of lines of one function that ran one after the other. Work is the number of
lines, as in ``tests.loop``, so no limit depends on the clock.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_LINES_BITS: Final = 20


class TooMuchWorkError(Exception):
    """An input took more lines in one step than its reader may take."""


class Trace:
    """The paths of all inputs so far, and the lines of the current step.

    Args:
        lines_max: an input that takes more lines in a step is stopped, even in an endless loop.

    Attributes:
        lines: those of all ended steps.
    """

    def __init__(self, lines_max: int) -> None:
        self.paths: set[int] = set()
        self.lines = 0
        self._lines_max = lines_max
        self._left = lines_max
        self._numbers: dict[CodeType, int] = {}

    def end_step(self) -> None:
        """Begin to count the lines of the next step."""
        self.lines += self._lines_max - self._left
        self._left = self._lines_max

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace the block."""
        self.end_step()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        number = self._numbers.get(frame.f_code)
        if number is None:
            number = self._numbers[frame.f_code] = self._number(frame.f_code)
        if number < 0:
            return None
        base, paths, before = number << 2 * _LINES_BITS, self.paths, 0

        def on_line(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
            nonlocal before
            self._left -= 1
            if self._left < 0:
                raise TooMuchWorkError(
                    f"{frame.f_code.co_qualname}: more than {self._lines_max} lines in one step"
                )
            line = frame.f_lineno
            paths.add(base | before << _LINES_BITS | line)
            before = line
            return on_line

        return on_line

    def _number(self, code: CodeType) -> int:
        """Return the number of a function of the project, -1 for any other one."""
        path = Path(code.co_filename)
        is_own = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests")
        return len(self._numbers) if is_own and ".venv" not in path.parts else -1
