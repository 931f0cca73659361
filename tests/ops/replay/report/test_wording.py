from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report import wording
from authorizerd.replay.text import format_count


@given(st.text(max_size=1_000), st.integers(wording.NAME_MAX, 600))
def test_long_name_keeps_both_ends_and_says_how_much_is_missing(text: str, longest: int) -> None:
    cut = wording.cut(text, longest)
    if len(text) <= longest:
        assert cut == text
    else:
        assert text.startswith(cut.split("…")[0][:50])
        assert text.endswith(cut[-30:])
        assert f"[{len(text) - longest:,} characters]" in cut


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.0421, "0.042"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (None, "–")],
)
def test_numbers_have_three_significant_digits(number: float | None, text: str) -> None:
    assert wording.format_significant(number) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10**6, "0.0 %"),
        (1, 10**6, "below 0.1 %"),
        (10**6 - 1, 10**6, "above 99.9 %"),
        (10**6, 10**6, "100.0 %"),
        (0, 0, "–"),
    ],
)
def test_share_is_never_rounded_to_nothing_or_to_all(part: int, whole: int, text: str) -> None:
    assert wording.format_share(part, whole) == text


@pytest.mark.parametrize(
    ("iso", "text"),
    [
        ("2026-11-16T06:00:00.123Z", "2026-11-16 06:00:00"),
        ("2026-11-16T06:00:00+02:00", "2026-11-16 04:00:00"),
        ("2026-11-16T06:00:00", "2026-11-16 06:00:00"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
        ("9007199254740991 ms", "9007199254740991 ms"),
        (None, "–"),
    ],
)
def test_times_are_in_utc(iso: str | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert wording.format_time(iso) == text
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nouns_follow_their_number() -> None:
    counted = [format_count(number, "event") for number in (0, 1, 2_000)]
    assert counted == ["0 events", "1 event", "2,000 events"]
