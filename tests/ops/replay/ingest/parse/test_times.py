from __future__ import annotations

from datetime import UTC, datetime

import pytest

from authorizerd.replay.ingest.parse.times import find_head, find_zone


def read(text: str, zone: str = "UTC") -> str | None:
    head = find_head(text)
    at_ms = None if head is None else head.at_ms(find_zone(zone))
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-07-01 12:00:00,000", "Europe/Berlin", "2026-07-01T10:00:00+00:00"),
        ("2026-07-01 12:00:00,000", "-05:30", "2026-07-01T17:30:00+00:00"),
        ("2026-07-01T12:00:00Z", "Europe/Berlin", "2026-07-01T12:00:00+00:00"),
        ("2026-07-01 12:00:00 +02", "UTC", "2026-07-01T10:00:00+00:00"),
        ("2026-07-01 12:00:00.9999", "UTC", "2026-07-01T12:00:00.999000+00:00"),
        ("2026-03-29 02:30:00", "Europe/Berlin", "2026-03-29T01:30:00+00:00"),
        ("2026-10-25 02:30:00", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
        ("2026-10-25 03:00:00", "Europe/Berlin", "2026-10-25T02:00:00+00:00"),
    ],
)
def test_a_time_is_of_its_own_zone_or_of_the_one_given(text: str, zone: str, expected: str) -> None:
    """In a gap the offset from before it holds; of an hour that comes twice it is the first."""
    assert read(text, zone) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29 00:00:00",
        "2026-01-01 24:00:00",
        "2026-01-01 00:00:00 CEST",
        "2026-01-01 00:00:00+19:00",
    ],
)
def test_a_time_that_never_was_is_none(text: str) -> None:
    """Neither rolled over nor taken for another zone's."""
    assert find_head(text) is not None
    assert read(text) is None


@pytest.mark.parametrize("text", ["", "12:00:00,000 INFO", "21/Nov/2026 12:00:00", "1795278386966"])
def test_without_a_day_there_is_no_time(text: str) -> None:
    """The day is not guessed from elsewhere."""
    assert find_head(text) is None


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "+25:00", "CEST"])
def test_a_zone_that_is_not_known_is_named(name: str) -> None:
    """A misspelt zone would shift every event."""
    with pytest.raises(ValueError, match="time zone"):
        find_zone(name)
