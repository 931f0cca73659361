"""Draw curves as an SVG file that any browser shows, over logarithmic axes or over time.

**Invariant:** a logarithmic axis covers whole powers of ten, so a reader can compare curves in
different files by eye.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.report.plots import (
    Axis,
    Curve,
    Frame,
    Plot,
    format_tick,
    linear_axis,
    log_axis,
)
from authorizerd.replay.report.rendering import ENVIRONMENT

COLUMNS: Final = 2
FRAME: Final = Frame(width=420, height=250, left=58.0, right=402.0, top=30.0, bottom=210.0)
_THOUSANDS: Final = ("", "k", "M", "G", "T")
_STYLE: Final = (
    "text{font:11px system-ui,sans-serif;fill:#333}.title{font-weight:600}"
    ".grid{stroke:#ddd}.axis{stroke:#888}.curve{fill:none;stroke-width:2}"
    ".curve-1{stroke:#0b6e99}.curve-2{stroke:#c2571a;stroke-dasharray:7 3}"
    ".dot.curve-1{fill:#0b6e99}.dot.curve-2{fill:#c2571a;stroke-dasharray:none}"
)
_PANELS: Final = ENVIRONMENT.from_string(
    """\
{% from "svg.jinja" import shapes, text %}
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}" width="{{ width }}" \
height="{{ height }}" role="img">
<style>{{ style }}</style>
<rect width="{{ width }}" height="{{ height }}" fill="#fff"/>
{% for x, y, title, plot in panels %}
<g transform="translate({{ x }},{{ y }})">
{% if plot %}
{{ shapes(plot) }}
{% else %}
{{ text(4, 14, title, style="title") }}{{ text(58, 125, "nothing was measured") }}
{% endif %}
</g>
{% endfor %}
</svg>
"""
)


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: points of x and y, both above 0, in rising x. It may be empty."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot among several; it has at most two series.

    With ``is_linear``, both axes begin at 0, and the points are not marked.
    """

    title: str
    x_title: str
    series: Sequence[Series]
    is_linear: bool = False


def draw_panels(panels: Sequence[Panel]) -> str:
    """Return the panels, two in each row, as one SVG document."""
    rows = -(-len(panels) // COLUMNS)
    placed = [
        (
            number % COLUMNS * FRAME.width,
            number // COLUMNS * FRAME.height,
            panel.title,
            _plot(panel),
        )
        for number, panel in enumerate(panels)
    ]
    size = {"width": FRAME.width * COLUMNS, "height": FRAME.height * rows}
    return _PANELS.render(**size, style=_STYLE, panels=placed) + "\n"


def _plot(panel: Panel) -> Plot | None:
    points = [point for series in panel.series for point in series.points]
    if not points:
        return None
    x, y = (_axis([point[each] for point in points], panel.is_linear) for each in (0, 1))
    write_number = format_tick if panel.is_linear else _format_power
    return Plot(
        label=panel.title,
        x=x,
        y=y,
        x_title=panel.x_title,
        y_title=panel.title,
        x_number=write_number,
        y_number=write_number,
        curves=[Curve(series.name, series.points) for series in panel.series],
        has_dots=not panel.is_linear,
        frame=FRAME,
    )


def _axis(values: Sequence[float], is_linear: bool) -> Axis:
    return linear_axis(0.0, max(values) or 1.0) if is_linear else log_axis(values, steps=(1.0,))


def _format_power(value: float) -> str:
    power = round(math.log10(value))
    if power < 3:
        return f"{10.0**power:g}"
    thousands, rest = divmod(power, 3)
    return f"{10**rest}{_THOUSANDS[thousands]}"
