"""``python -m tests.ops.manual``: write the manual page and the completions anew."""

from __future__ import annotations

from tests.ops.manual.written import ROOT, written

if __name__ == "__main__":
    for name, text in written().items():
        (ROOT / name).write_text(text)
