"""The page: one file that needs nothing else, and is let to load nothing else.

**Invariant:** equal results give equal bytes; the page tells no time of its own making. Its policy
allows the one style sheet and the one script that are in it, by their hashes, and nothing besides:
no address is ever asked, and no name in the results can become code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from authorizerd.replay.report.findings import SYMBOLS, Finding
from authorizerd.replay.report.ingest_section import files_section, ingest_section
from authorizerd.replay.report.load_section import load_section
from authorizerd.replay.report.markup import Markup, code_element, element, joined
from authorizerd.replay.report.results import Results
from authorizerd.replay.report.script import SCRIPT
from authorizerd.replay.report.style import STYLE
from authorizerd.replay.report.usage_section import usage_section
from authorizerd.replay.report.whatif_section import whatif_section
from authorizerd.replay.report.wording import code, name, time_text

_WORDS: Final = {"good": "good", "bad": "bad", "doubtful": "look at it", "plain": "for information"}
_TITLES: Final = {
    "whatif": "What if",
    "load": "Load",
    "usage": "ACLs in use",
    "ingest": "What was read",
    "files": "Files",
}


def page(title: str, results: Results, found: Sequence[Finding]) -> str:
    """Return the HTML of the page; ``title`` is what the run is called."""
    content = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_policy()),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", f"Replay of {title}"),
            code_element("style", STYLE),
        ),
        element("body", _header(title, results, found), element("main", *_sections(results)),
                code_element("script", SCRIPT)),
        lang="en",
    )  # fmt: skip
    return f"<!DOCTYPE html>\n{content}\n"


def _policy() -> str:
    return (
        f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def _header(title: str, results: Results, found: Sequence[Finding]) -> Markup:
    kinds = [kind for kind in _TITLES if kind == "files" or kind in results.files]
    links = (element("a", _TITLES[kind], href=f"#{kind}") for kind in kinds)
    return element(
        "header",
        element("h1", "Replay of ", name(title)),
        element("p", *_lead(results), class_="lead"),
        element("ul", *map(_finding, found), class_="findings", aria_label="Findings"),
        element("nav", *links, aria_label="Sections"),
    )


def _lead(results: Results) -> Iterator[str]:
    """Yield what the results are of: which traffic, which ACLs, which run."""
    whatif, usage, load = results.whatif, results.usage, results.load
    dated = whatif or results.ingest
    if dated is not None:
        yield f"Traffic from {time_text(dated.first_at)} to {time_text(dated.last_at)} (UTC). "
    judged = whatif.candidate if whatif is not None else usage.acls if usage is not None else None
    if judged is not None:
        yield joined(["ACLs of ", name(judged.source), _at(judged.offset), ", "])
        yield joined([code(judged.digest), ". "])
    if load is not None:
        yield joined(["Load run ", name(load.run_id), "."])


def _at(offset: int | None) -> str:
    return "" if offset is None else f" at log offset {offset}"


def _finding(found: Finding) -> Markup:
    return element(
        "li",
        element(
            "span",
            SYMBOLS[found.state],
            class_=f"sign {found.state}",
            role="img",
            aria_label=_WORDS[found.state],
        ),
        element("span", _TITLES[found.about], class_="about"),
        element(
            "div",
            element("b", found.text, class_=found.state),
            *(element("p", note) for note in found.notes),
        ),
    )


def _sections(results: Results) -> Iterator[Markup]:
    if results.whatif is not None:
        yield whatif_section(results.whatif)
    if results.load is not None:
        yield load_section(results.load)
    if results.usage is not None:
        yield usage_section(results.usage)
    if results.ingest is not None:
        yield ingest_section(results.ingest)
    yield files_section(results.files)
