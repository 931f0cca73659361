"""What an ingest wrote, in figures: ``ingest.json`` beside the events.

**Invariant:** ``lines == blank_lines + events + set_aside``: every line that was read is accounted
for.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one ingest.

    ``accepted`` is False where more than ``bad_ratio_max`` of the lines were set aside: such events
    prove nothing. Times are ISO 8601 in UTC, None where there are no events.
    """

    accepted: bool
    lines: int
    blank_lines: int
    events: int
    set_aside: int
    reasons: dict[str, int]
    allowed_events: int
    denied_events: int
    tuples: int
    first_at: str | None
    last_at: str | None
    time_zone: str
    inputs: tuple[str, ...]
    levels: dict[str, int]

    def __post_init__(self) -> None:
        """Hold the law.

        Raises:
            ValueError: lines or events are not accounted for.
        """
        if self.lines != self.blank_lines + self.events + self.set_aside:
            raise ValueError(
                f"{self.lines} lines were read, but {self.blank_lines} blank ones, {self.events} "
                f"events and {self.set_aside} set aside were written"
            )
        if self.events != self.allowed_events + self.denied_events:
            raise ValueError("allowed and denied events are not all events")


_decoder: Final = msgspec.json.Decoder(Ingested)


def encode_ingested(ingested: Ingested) -> str:
    """Return the text of ``ingest.json``."""
    return msgspec.json.format(msgspec.json.encode(ingested), indent=2).decode() + "\n"


def decode_ingested(text: str) -> Ingested:
    """Return the figures of an ``ingest.json``.

    Raises:
        msgspec.DecodeError: the text is no such file, or its figures contradict each other.
    """
    return _decoder.decode(text)
