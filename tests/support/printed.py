"""What the command prints that runs in this process."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from authorizerd.cli.main import main


class Printed(NamedTuple):
    """The text on standard output, and that on standard error."""

    out: str
    err: str


class _Stream(io.TextIOWrapper):
    def __init__(self) -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, encoding="utf-8", newline="", write_through=True)


def run_main(
    *words: str | Path,
    code: int | tuple[int, ...] = 0,
    main: Callable[[list[str]], int] = main,
) -> Printed:
    """Run the command until it ends with this exit code, or one of these. Return what it prints."""
    out, err = _Stream(), _Stream()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            found: object = main([str(word) for word in words])
        except SystemExit as ended:
            found = ended.code
    printed = Printed(*(each.written.getvalue().decode() for each in (out, err)))
    assert found in (code if isinstance(code, tuple) else (code,)), printed.err
    return printed
