"""``report.json``: what the page says, for programs.

**Invariant:** the results stand in it exactly as their jobs wrote them, nothing left out;
``version`` grows when what stands around them changes its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from authorizerd.replay.report.findings import Finding
from authorizerd.replay.report.results import ResultFile, Results

VERSION: Final = 1


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``files`` and ``results`` are by kind: ``ingest``, ``whatif``, ``usage``, ``load``."""

    version: int = VERSION
    findings: tuple[Finding, ...]
    files: dict[str, ResultFile]
    results: dict[str, msgspec.Raw]


def encode_document(results: Results, findings: Sequence[Finding]) -> str:
    document = ReportDocument(findings=tuple(findings), files=results.files, results=results.texts)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
