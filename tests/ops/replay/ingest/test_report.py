from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from authorizerd.replay.ingest.report import (
    Ingested,
    add_up,
    count_lines,
    decode_ingested,
    summary_line,
    why_not_accepted,
)
from authorizerd.replay.text import encode_json

INGESTED = Ingested(
    accepted=True, lines=6, blank_lines=1, events=3, set_aside=2, reasons={"no_time": 2},
    allowed_events=1, denied_events=2, tuples=2, first_at="2026-11-21T16:26:26.966Z", last_at=None,
    time_zone="UTC", inputs=("a.log",), levels={"INFO": 3},
)  # fmt: skip


def test_figures_read_back() -> None:
    assert decode_ingested(encode_json(INGESTED)) == INGESTED


def test_explanations_are_neither_bad_nor_good_lines() -> None:
    def count(bad_ratio_max: float, **reasons: int) -> Ingested:
        return count_lines(
            levels=Counter(DEBUG=5), reasons=Counter(reasons), blank_lines=1, allowed=5,
            first_ms=0, last_ms=0, time_zone="UTC", inputs=(), bad_ratio_max=bad_ratio_max,
        )  # fmt: skip

    ingested = count(0, explanation=20)
    assert (ingested.lines, ingested.explanations, ingested.set_aside) == (26, 20, 0)
    assert ingested.accepted
    assert summary_line(ingested).endswith("of 26 lines; 0 set aside, 20 explanations left out")
    assert add_up([ingested] * 2, 0).explanations == 40
    assert count(0.25, explanation=20, no_time=2).accepted
    assert not count(0.24, explanation=20, no_time=2).accepted


@pytest.mark.parametrize(("events", "reasons", "is_accepted"), [
    (0, {"no_line_field": 3}, False), (0, {"no_line_field": 1, "no_decision": 9}, False),
    (1, {"no_line_field": 9}, True), (0, {"no_decision": 9}, True), (0, {}, True),
])  # fmt: skip
def test_no_share_permits_that_every_line_lacks_the_named_field(
    events: int, reasons: dict[str, int], is_accepted: bool
) -> None:
    ingested = count_lines(
        levels=Counter(DEBUG=events), reasons=Counter(reasons), blank_lines=0, allowed=events,
        first_ms=None, last_ms=None, time_zone="UTC", inputs=(), bad_ratio_max=1,
    )  # fmt: skip
    assert ingested.accepted is is_accepted
    is_named = "no line has a text in the JSON field that" in why_not_accepted(ingested, 1)
    assert is_named is not is_accepted


@pytest.mark.parametrize(
    "name", ["lines", "blank_lines", "explanations", "events", "set_aside", "denied_events"]
)
def test_figures_that_do_not_add_up_are_rejected(name: str) -> None:
    record = msgspec.to_builtins(INGESTED) | {name: 77}
    with pytest.raises(ValueError, match=r"lines were read|counts of allowed"):
        Ingested(**record)
    with pytest.raises(msgspec.DecodeError):
        decode_ingested(msgspec.json.encode(record).decode())
