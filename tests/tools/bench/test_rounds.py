"""Servers are measured in turn, and lines have the medians and the ranges of the rounds."""

from __future__ import annotations

import pytest

from tools.bench.authzen import SURFACE
from tools.bench.closed_loop import LoadReport, summarize
from tools.bench.figures import Absent
from tools.bench.http_surface import Server, ServerFigures
from tools.bench.processes import ProcessError
from tools.bench.rounds import compare_loads, measure_in_turn


def server(host: str, *, is_peer: bool) -> Server:
    return Server(surface=SURFACE, host=host, process_id=0, is_peer=is_peer)


OURS, PEER = server("ours", is_peer=False), server("peer", is_peer=True)


def report(samples: int) -> LoadReport:
    """Return the report of latencies of 1 ms, 2 ms and so on."""
    latencies = [number * 1_000_000 for number in range(1, samples + 1)]
    return summarize(latencies, requests=samples, requests_per_second=samples)


def figures(rate: float, samples: int = 2000, refused: int = 0) -> ServerFigures:
    load = report(samples)
    return ServerFigures(
        LoadReport(
            load.requests, rate, load.timed, load.latencies_ms, load.max_ms, refused=refused
        ),
        rate,
        rate / 2,
    )


def test_sides_alternate_in_rounds() -> None:
    asked: list[str] = []

    def measure(asked_server: Server) -> int:
        asked.append(asked_server.host)
        return len(asked)

    found = measure_in_turn(2, (OURS, PEER, Absent("no opa")), measure)
    assert asked == ["ours", "peer", "ours", "peer"]
    assert found == [[1, 3], [2, 4], Absent("no opa")]


def test_failing_peer_is_left_out_but_our_own_failure_ends_the_run() -> None:
    def fail(asked_server: Server) -> int:
        raise ProcessError(f"{asked_server.host} failed")

    assert measure_in_turn(2, (PEER,), fail) == [Absent("peer failed")]
    with pytest.raises(ProcessError, match="ours failed"):
        measure_in_turn(2, (OURS,), fail)


def test_lines_have_the_median_and_the_range() -> None:
    rate, cpu, p50, p99 = compare_loads(
        "HTTP", [figures(10), figures(40), figures(30)], "OPA", [figures(15)]
    )
    assert (rate.ours, rate.spread) == (30, (10, 40))
    assert rate.peer is not None
    assert rate.peer.value == rate.peer.spread[0] == 15 if rate.peer.spread else False
    assert (rate.ratio, cpu.ratio) == (2, 2)
    assert [line.what for line in (rate, cpu, p50, p99)] == [
        "HTTP: decisions", "HTTP: decisions a CPU-second", "HTTP: p50", "HTTP: p99",
    ]  # fmt: skip
    assert (p50.ours, p99.ours) == (1000, 1980)


def test_percentile_is_the_highest_that_every_round_of_both_sides_supports() -> None:
    whats = [
        line.what
        for line in compare_loads("HTTP", [figures(1)], "OPA", [figures(1), figures(1, 999)])
    ]
    assert whats[2:] == ["HTTP: p50", "HTTP: p90"]


def test_refusals_of_either_side_are_shown() -> None:
    *_, line = compare_loads("HTTP", [figures(1)], "OPA", [figures(1, refused=7)])
    assert line.what == "HTTP: refused in a round"
    assert line.peer is not None
    assert (line.ours, line.peer.value) == (0, 7)
