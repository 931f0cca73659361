"""Render the report's templates into pages that need no other file and may not load any.

**Invariant:** every printed text is escaped by markupsafe, and escape sequences replace its
unprintable characters, such as control characters and marks of direction. A misspelled name in a
template is an error, not an empty text. The Content-Security-Policy of a page allows only its own
style sheet and script, by their hashes, so no name in a result can run as code. Equal results give
equal bytes, since a page does not say when it was made.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from itertools import islice
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from authorizerd.acl.model import Code, Operation, ResourceType
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.report import plots, wording
from authorizerd.replay.report.differences import KINDS, Difference
from authorizerd.replay.report.findings import SYMBOLS, Finding
from authorizerd.replay.report.results import Results
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import UsedAcl
from authorizerd.replay.whatif.report import Detail

ROWS_MAX: Final = 1_000
CHARACTERS_MAX: Final = 600_000
HEAT_ROWS_MAX: Final = 20
HEAT_COLUMNS_MAX: Final = 16
TONES: Final = tuple((tone, 10 ** (tone - 1)) for tone in range(1, 7))
"""Each tone of a heat map and the lowest count that has it: one for each power of ten."""


def make_page(title: str, results: Results, findings: Sequence[Finding]) -> str:
    """Return the HTML of the report; ``title`` is the name of the run."""
    sections = (*results.files, "files")
    return render_page(
        "report.html.jinja", title=title, sections=sections, results=results, findings=findings
    )


def make_difference_page(
    difference: Difference, was: Results, now: Results, findings: Sequence[Finding]
) -> str:
    """Return the HTML of the page that compares two runs."""
    kinds = {finding.about for finding in findings} - {"inputs"}
    return render_page(
        "difference.html.jinja",
        difference=difference,
        sections=("inputs", *(kind for kind in KINDS if kind in kinds), "files"),
        loads=(was.load, now.load),
        findings=findings,
    )


def render_page(template: str, *, has_script: bool = True, **context: object) -> str:
    """Return the HTML of a page, from a template that extends ``base.html.jinja``."""
    style = read_static("report.css")
    script = read_static("report.js") if has_script else Markup()
    scripts = f"script-src {_hash(script)}; " if has_script else ""
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; {scripts}"
        "base-uri 'none'; form-action 'none'"
    )
    page = ENVIRONMENT.get_template(template)
    return page.render(policy=policy, style=style, script=script, **context)


def read_static(name: str) -> Markup:
    """Return a file in ``static/``, which a template prints without escaping it."""
    return Markup((files(__package__) / "static" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def render_rows(render_row: Callable[[object], Markup], rows: Iterable[object]) -> list[Markup]:
    """Return the first rows of a table, within ``ROWS_MAX`` and ``CHARACTERS_MAX``."""
    rendered: list[Markup] = []
    characters = 0
    for row in islice(rows, ROWS_MAX):
        markup = render_row(row)
        characters += len(markup)
        if characters > CHARACTERS_MAX:
            break
        rendered.append(markup)
    return rendered


def rank_by_use(used: Sequence[UsedAcl]) -> list[UsedAcl]:
    """Return the ACLs with the most events first."""
    return sorted(used, key=lambda each: -(each.alone.events + each.with_others.events))


def name_question(question: Sequence[object]) -> list[str | None]:
    """Return principal, host, operation, resource type and resource name, without codes."""
    codes: tuple[Iterable[Code], ...] = ((), (), Operation, ResourceType, ())
    return [
        None if value is None else next((each.name for each in kind if each == value), str(value))
        for kind, value in zip(codes, question, strict=True)
    ]


def make_heat_map(
    details: Iterable[Detail], fields: Sequence[str]
) -> tuple[list[str | None], list[tuple[str | None, list[int]]]]:
    """Return the columns of a heat map, and each row's name and counts by column.

    ``fields`` of a change together name a column; rows are principals. Those with the most events
    come first; a name without its own row or column is counted under None, "others".
    """
    cells = [
        (detail.principal, " ".join(getattr(detail, field) for field in fields), detail.events)
        for detail in details
    ]
    rows = _rank(((row, number) for row, _, number in cells), HEAT_ROWS_MAX)
    columns = _rank(((column, number) for _, column, number in cells), HEAT_COLUMNS_MAX)
    counts = Counter[tuple[str | None, str | None]]()
    for row, column, number in cells:
        counts[row if row in rows else None, column if column in columns else None] += number
    return columns, [(row, [counts[row, column] for column in columns]) for row in rows]


def _rank(counted: Iterable[tuple[str, int]], limit: int) -> list[str | None]:
    """Return the names with the highest sums, then None if there are others."""
    sums = Counter[str]()
    for name, number in counted:
        sums[name] += number
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    return [*ranked[:limit], *([None] if len(ranked) > limit else [])]


def get_tone(number: int) -> int:
    """Return the tone of a count: its number of decimal digits, up to the last tone; 0 for 0."""
    # Digits are exact; the logarithm of a power of ten may not be.
    return min(len(str(number)), len(TONES)) if number > 0 else 0


def _make_printable(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_unprintable(value)
    return value


ENVIRONMENT: Final = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_make_printable,  # runs on each printed value, before it is escaped
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "change": wording.format_change,
    "counted": format_count,
    "cut": wording.cut,
    "number": "{:,}".format,
    "px": "{:.1f}".format,
    "share": wording.format_share,
    "significant": wording.format_significant,
    "tick": plots.format_tick,
    "time": wording.format_time,
}
# Globals, not context: a macro that another template imports does not see the context.
ENVIRONMENT.globals |= {
    "NAME_MAX": wording.NAME_MAX,
    "SYMBOLS": SYMBOLS,
    "TONES": TONES,
    "get_tone": get_tone,
    "make_heat_map": make_heat_map,
    "name_question": name_question,
    "plots": plots,
    "rank_by_use": rank_by_use,
    "render_rows": render_rows,
}
