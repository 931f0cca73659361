"""The report of a soak: what was asked, what was disturbed, and whether anything grows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, TypeAlias

from authorizerd.replay.report.plots import Curve, Plot, linear_axis
from authorizerd.replay.report.rendering import ENVIRONMENT
from tests.soak.flatness import LIMITS, MIB, Judgement, Sample, Verdict, judge
from tests.soak.soak import Soak

_POINTS_MAX: Final = 300
_WIDTHS: Final = (34, 17)
Panel: TypeAlias = tuple[str, Sequence[Curve]]
"""The title of a plot, and at most two curves, which may be empty."""
_COLUMNS: Final = 3
_WIDTH: Final = 420
_HEIGHT: Final = 250
_PANELS: Final = ENVIRONMENT.from_string(
    """\
{% from "svg.jinja" import shapes, text %}
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}" width="{{ width }}" \
height="{{ height }}" role="img">
<style>
text{font:11px system-ui,sans-serif;fill:#333}.title{font-weight:600}
.grid{stroke:#ddd}.axis{stroke:#888}.curve{fill:none;stroke-width:2}
.curve-1{stroke:#0b6e99}.curve-2{stroke:#c2571a;stroke-dasharray:7 3}
</style>
<rect width="{{ width }}" height="{{ height }}" fill="#fff"/>
{% for x, y, title, plot in panels %}
<g transform="translate({{ x }},{{ y }})">
{% if plot %}{{ shapes(plot) }}
{% else %}{{ text(4, 14, title, style="title") }}{{ text(58, 125, "nothing was measured") }}
{% endif %}
</g>
{% endfor %}
</svg>
"""
)


def judge_all(soak: Soak) -> dict[tuple[str, str], Judgement]:
    """Judge each quantity of each process that has a limit."""
    return {
        key: judge(samples, LIMITS[key[1]])
        for key, samples in sorted(soak.series.items())
        if key[1] in LIMITS
    }


def find_growth(judgements: Mapping[tuple[str, str], Judgement]) -> list[str]:
    """Return a text for each quantity that grows."""
    return [
        f"{process}: {quantity} grows by {_show(quantity, each.growth)} in {each.seconds:.0f} s"
        for (process, quantity), each in judgements.items()
        if each.verdict is Verdict.GROWS
    ]


def format_report(soak: Soak, judgements: Mapping[tuple[str, str], Judgement]) -> str:
    """Return the tables as text."""
    tables = _format_clients(soak), _format_disturbances(soak), _format_judgements(judgements)
    return "\n\n".join(map("\n".join, tables))


def _row(*cells: object) -> str:
    name, second, *numbers = map(str, cells)
    return f"{name:{_WIDTHS[0]}}{second:{_WIDTHS[1]}}" + "".join(f"{each:>12}" for each in numbers)


def _format_clients(soak: Soak) -> Iterator[str]:
    yield _row("client", "daemon", "checked", "refused", "cut off", "p50 ms", "p99 ms", "max ms")
    for (site, client), tally in sorted(soak.tallies.items(), key=lambda item: item[0][::-1]):
        times = ["", "", ""]
        if len(tally.seconds) > 1:
            parts = quantiles(tally.seconds, n=100, method="inclusive")
            worst = max(tally.seconds)
            times = [f"{each * 1000:.1f}" for each in (parts[49], parts[98], worst)]
        refused = sum(tally.refused.values())
        yield _row(client, site, f"{len(tally.seconds):,}", refused, tally.cut, *times)
        for reason, count in tally.refused.items():
            yield f"    {count} refused: {reason}"


def _format_disturbances(soak: Soak) -> Iterator[str]:
    yield _row("disturbance", "daemon", "times")
    for (site, name), count in sorted(soak.disturbed.items()):
        yield _row(name, site, count)


def _format_judgements(judgements: Mapping[tuple[str, str], Judgement]) -> Iterator[str]:
    yield _row("process", "quantity", "samples", "median", "growth", "allowed", "verdict")
    for (process, quantity), each in judgements.items():
        shown = [_show(quantity, value) for value in (each.typical, each.growth, each.allowed)]
        if each.verdict is Verdict.NOT_JUDGED:
            shown = [""] * 3
        yield _row(process, quantity, each.samples, *shown, each.verdict.value)


def _show(quantity: str, value: float) -> str:
    return f"{value / MIB:.2f} MiB" if quantity == "memory" else f"{value:.2f}"


def write_files(soak: Soak, folder: Path) -> None:
    """Write the samples as JSON, and a plot of them as SVG."""
    samples = {": ".join(key): values for key, values in soak.series.items()}
    (folder / "samples.json").write_text(json.dumps(samples))
    (folder / "soak.svg").write_text(draw_panels(list(_panels(soak))))


def _panels(soak: Soak) -> Iterator[Panel]:
    """Yield plots over time: of all daemons, and of the worker that lived longest."""
    workers = {process for process, _ in soak.series if ": worker " in process}
    oldest = max(workers, key=lambda each: len(soak.series[each, "memory"]), default="")
    for quantity, title, unit, *names in (
        ("memory", "memory in MiB", MIB, "daemon"),
        ("descriptors", "open descriptors", 1, "daemon"),
        ("p99 ms", "p99 in ms", 1, "evaluation", "stream"),
    ):
        for site in soak.sites:
            drawn = [f"{site.name}: {name}" for name in names]
            if oldest.startswith(site.name) and "daemon" in names:
                drawn.append(oldest)
            curves = [Curve(each, _scale(soak.series[each, quantity], unit)) for each in drawn]
            yield title, curves


def _scale(samples: Sequence[Sample], unit: float) -> list[Sample]:
    """Return at most ``_POINTS_MAX`` of the samples, with times in minutes."""
    step = max(1, -(-len(samples) // _POINTS_MAX))
    return [(time / 60, value / unit) for time, value in samples[::step]]


def draw_panels(panels: Sequence[Panel]) -> str:
    """Return the panels, three in each row, as one SVG document."""
    placed = [
        (number % _COLUMNS * _WIDTH, number // _COLUMNS * _HEIGHT, title, _plot(title, curves))
        for number, (title, curves) in enumerate(panels)
    ]
    size = {"width": _WIDTH * _COLUMNS, "height": _HEIGHT * -(-len(panels) // _COLUMNS)}
    return _PANELS.render(**size, panels=placed) + "\n"


def _plot(title: str, curves: Sequence[Curve]) -> Plot | None:
    points = [point for curve in curves for point in curve.points]
    if not points:
        return None
    x, y = (linear_axis(0.0, max(point[each] or 0.0 for point in points) or 1.0) for each in (0, 1))
    return Plot(
        label=title, x=x, y=y, x_title="minutes", y_title=title, curves=curves,
        width=_WIDTH, height=_HEIGHT, left=58.0, top=30.0,
    )  # fmt: skip
