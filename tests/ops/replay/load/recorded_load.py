"""Recorded questions, and loads of them in this process or on Spark."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.recorded_events import Event, write_events


def events_of(count: int, every_ms: int = 1, principals: int = 7) -> list[Event]:
    return [
        Event(f"User:u{number % principals}", "10.0.0.1", "READ", "TOPIC", f"t{number % 3}", True,
              at=number * every_ms)
        for number in range(count)
    ]  # fmt: skip


def load(
    run: Callable[[LoadPlan], int], folder: Path, recorded: Sequence[Event], **options: object
) -> tuple[int, dict[str, Any]]:
    """Run the load of the events, with ``run``; return its exit code and what it wrote."""
    source = folder / "in"
    if not source.exists():
        write_events(source, recorded)
    plan = LoadPlan(
        events=str(source), out=str(folder / "out"), run_id="run-1", lanes=2, target="127.0.0.1:1",
        start_margin_s=0.2, max_send_lag_ms=60_000.0,
    )  # fmt: skip
    code = run(msgspec.structs.replace(plan, **options))
    return code, json.loads((folder / "out" / "load.json").read_text())
