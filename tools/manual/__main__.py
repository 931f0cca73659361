"""``python -m tools.manual``: write the manual page and the shell completions."""

from __future__ import annotations

from tools.manual.documents import ROOT, documents

if __name__ == "__main__":
    for name, text in documents().items():
        (ROOT / name).write_text(text)
