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


@pytest.mark.parametrize(
    "name", ["lines", "blank_lines", "explanations", "events", "set_aside", "denied_events"]
)
def test_figures_that_do_not_add_up_are_rejected(name: str) -> None:
    record = msgspec.to_builtins(INGESTED) | {name: 77}
    with pytest.raises(ValueError, match=r"lines were read|counts of allowed"):
        Ingested(**record)
    with pytest.raises(msgspec.DecodeError):
        decode_ingested(msgspec.json.encode(record).decode())
