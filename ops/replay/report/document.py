"""``report.json``: the content of the page, for programs.

**Invariant:** it contains the results exactly as their jobs wrote them. ``version`` increases when
any other field changes its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from authorizerd.replay.report.findings import Finding
from authorizerd.replay.report.results import ResultFile, Results
from authorizerd.replay.text import encode_json

VERSION: Final = 1


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document; the keys of its maps are ``ingest``, ``whatif``, ``usage`` and ``load``."""

    version: int = VERSION
    findings: tuple[Finding, ...]
    files: dict[str, ResultFile]
    results: dict[str, msgspec.Raw]


def encode_document(results: Results, findings: Sequence[Finding]) -> str:
    """Return the text of ``report.json``."""
    document = ReportDocument(findings=tuple(findings), files=results.files, results=results.texts)
    return encode_json(document)
