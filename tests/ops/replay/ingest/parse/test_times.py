from __future__ import annotations

from datetime import UTC, datetime

import pytest

from authorizerd.replay.ingest.parse.times import find_head, find_zone


def read(text: str, zone: str = "UTC") -> str | None:
    head = find_head(text)
    at_ms = None if head is None else head.at_ms(find_zone(zone))
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(("text", "zone", "expected"), [
    ("2026-07-01 12:00:00,000", "Europe/Berlin", "2026-07-01T10:00:00+00:00"),
    ("2026-07-01 12:00:00,000", "-05:30", "2026-07-01T17:30:00+00:00"),
    ("2026-07-01T12:00:00Z", "Europe/Berlin", "2026-07-01T12:00:00+00:00"),
    ("2026-07-01 12:00:00 +02", "UTC", "2026-07-01T10:00:00+00:00"),
    ("2026-07-01 12:00:00.9999", "UTC", "2026-07-01T12:00:00.999000+00:00"),
    ("2026-03-29 02:30:00", "Europe/Berlin", "2026-03-29T01:30:00+00:00"),
    ("2026-10-25 02:30:00", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
    ("2026-10-25 03:00:00", "Europe/Berlin", "2026-10-25T02:00:00+00:00"),
])  # fmt: skip
def test_time_is_read_in_its_own_zone_or_the_given_one(text: str, zone: str, expected: str) -> None:
    assert read(text, zone) == expected


@pytest.mark.parametrize("text", [
    "2026-02-29 00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:00:00 CEST",
    "2026-01-01 00:00:00+19:00",
])  # fmt: skip
def test_impossible_time_gives_none(text: str) -> None:
    assert find_head(text) is not None
    assert read(text) is None


@pytest.mark.parametrize("text", ["", "12:00:00,000 INFO", "21/Nov/2026 12:00:00", "1795278386966"])
def test_time_without_a_day_is_not_found(text: str) -> None:
    assert find_head(text) is None


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "+25:00", "CEST"])
def test_unknown_zone_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        find_zone(name)
