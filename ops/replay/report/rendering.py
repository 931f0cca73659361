"""Render the report's templates.

**Invariant:** every printed text is escaped by markupsafe, and escape sequences replace its
unprintable characters, such as control characters and marks of direction. A misspelled name in a
template is an error, not an empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from itertools import islice
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.report import heat_map, load_plots, values, wording
from authorizerd.replay.report.findings import SYMBOLS, format_measured
from authorizerd.replay.text import format_count

ROWS_MAX: Final = 1_000
CHARACTERS_MAX: Final = 600_000
SUPER_USERS_MAX: Final = 20


def render(template: str, **context: object) -> str:
    """Return the text of a template in ``templates/``."""
    return ENVIRONMENT.get_template(template).render(context)


def read_static(name: str) -> Markup:
    """Return a file in ``static/``, which a template prints without escaping it."""
    return Markup((files(__package__) / "static" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


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


def _make_printable(value: object) -> object:
    return (
        escape_unprintable(value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


ENVIRONMENT: Final = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_make_printable,  # runs on each printed value, before it is escaped
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "counted": format_count,
    "cut": wording.cut,
    "heat_level": heat_map.level_of,
    "milliseconds": wording.format_milliseconds,
    "number": wording.format_number,
    "per_second": wording.format_rate,
    "px": wording.format_pixels,
    "seconds": wording.format_seconds,
    "share": wording.format_share,
    "significant": wording.format_significant,
    "time": wording.format_time,
}
# Globals, not context: a macro that another template imports does not see the context.
ENVIRONMENT.globals |= {
    "BARS_MAX": values.BARS_MAX,
    "HEAT_LEVELS": heat_map.LEVELS,
    "NAME_MAX": wording.NAME_MAX,
    "RULE_MAX": wording.RULE_MAX,
    "SUPER_USERS_MAX": SUPER_USERS_MAX,
    "SYMBOLS": SYMBOLS,
} | {
    function.__name__: function
    for function in (
        format_measured,
        heat_map.map_by_operation,
        heat_map.map_by_resource,
        load_plots.group_seconds,
        load_plots.plot_latency,
        load_plots.plot_percentiles,
        load_plots.plot_rates,
        render_rows,
        values.make_count_bars,
        values.make_use_bars,
        values.name_question,
        values.rank_by_use,
        values.rank_counts,
    )
}
