from __future__ import annotations

import msgspec
import pytest

from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.text import encode_json

INGESTED = Ingested(
    accepted=True, lines=6, blank_lines=1, events=3, set_aside=2, reasons={"no_time": 2},
    allowed_events=1, denied_events=2, tuples=2, first_at="2026-11-21T16:26:26.966Z", last_at=None,
    time_zone="UTC", inputs=("a.log",), levels={"INFO": 3},
)  # fmt: skip


def test_figures_read_back() -> None:
    assert decode_ingested(encode_json(INGESTED)) == INGESTED


@pytest.mark.parametrize("name", ["lines", "blank_lines", "events", "set_aside", "denied_events"])
def test_figures_that_do_not_add_up_are_rejected(name: str) -> None:
    record = msgspec.to_builtins(INGESTED) | {name: 77}
    with pytest.raises(ValueError, match=r"lines were read|counts of allowed"):
        Ingested(**record)
    with pytest.raises(msgspec.DecodeError):
        decode_ingested(msgspec.json.encode(record).decode())
