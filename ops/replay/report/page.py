"""Make the page: one file that needs no other file and may not load any.

**Invariant:** equal results give equal bytes, since the page does not say when it was made. Its
Content-Security-Policy allows only its own style sheet and script, by their hashes. The page
therefore contacts no address, and no name in the results can run as code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

from authorizerd.replay.report.findings import Finding
from authorizerd.replay.report.rendering import read_static, render
from authorizerd.replay.report.results import Results

_STYLE: Final = read_static("report.css")
_SCRIPT: Final = read_static("report.js")


def make_page(title: str, results: Results, findings: Sequence[Finding]) -> str:
    """Return the HTML of the page; ``title`` is the name of the run."""
    policy = (
        f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return render(
        "page.html.jinja",
        title=title,
        results=results,
        findings=findings,
        policy=policy,
        style=_STYLE,
        script=_SCRIPT,
    )


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
