from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def run_promtool(*arguments: str | Path, text: str = "") -> str:
    """Return what promtool prints about ``text`` or a file; it must find no fault."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    done = subprocess.run(
        [promtool, *arguments], input=text, capture_output=True, text=True, check=False
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    return printed
