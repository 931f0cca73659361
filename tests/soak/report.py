"""The report of a soak: what was asked, what was disturbed, and whether anything grows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final

from tests.soak.flatness import Judgement, Sample, Verdict, judge
from tests.soak.plot import Panel, Series, draw_panels
from tests.soak.sampler import LIMITS, MIB
from tests.soak.soak import Soak

_POINTS_MAX: Final = 300
_WIDTHS: Final = (34, 17)


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
    return "\n".join(
        [
            *_format_clients(soak),
            "",
            *_format_disturbances(soak),
            "",
            *_format_judgements(judgements),
        ]
    )


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
    for quantity, title, unit in (
        ("memory", "memory in MiB", MIB),
        ("descriptors", "open descriptors", 1),
    ):
        for first, second in (
            ("own: daemon", oldest),
            ("follower: daemon", ""),
            ("brokers: daemon", ""),
        ):
            series = [
                Series(name, _scale(soak.series[name, quantity], unit))
                for name in (first, second)
                if name
            ]
            yield Panel(title, "minutes", series, is_linear=True)
    for site in ("own", "follower", "brokers"):
        series = [
            Series(name, _scale(soak.series[f"{site}: {name}", "p99 ms"], 1))
            for name in ("evaluation", "stream")
        ]
        yield Panel(f"p99 in ms, {site}", "minutes", series, is_linear=True)


def _scale(samples: Sequence[Sample], unit: float) -> list[Sample]:
    """Return at most ``_POINTS_MAX`` of the samples, with times in minutes."""
    step = max(1, -(-len(samples) // _POINTS_MAX))
    return [(time / 60, value / unit) for time, value in samples[::step]]
