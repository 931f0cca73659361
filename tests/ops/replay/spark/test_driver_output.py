from __future__ import annotations

import io
import sys
import warnings

import pytest

from authorizerd.replay.spark.driver_output import MessageStream, trace, trace_warning


def test_each_line_to_standard_error_gets_one_prefix() -> None:
    out = io.StringIO()
    print("one", 2, "three\nfour", file=MessageStream(out))
    stream = MessageStream(out)
    for piece in ("authorizerd replay: a", "lready\nun", "finished"):
        stream.write(piece)
    assert out.getvalue().splitlines() == [
        "authorizerd replay: one 2 three",
        "authorizerd replay: four",
        "authorizerd replay: already",
    ]


def test_traces_and_warnings_go_to_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace("Traceback:\n  File x\n")
    monkeypatch.setattr(warnings, "showwarning", trace_warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old", UserWarning, "file.py", 7, sys.stderr)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[:3] == [
        "authorizerd replay trace: Traceback:",
        "authorizerd replay trace:   File x",
        "authorizerd replay trace: file.py:7: UserWarning: old",
    ]
