"""Numbers and names as people read them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report import wording


@given(st.text(max_size=1_000), st.integers(wording.NAME_MAX, 600))
def test_a_name_is_bounded_and_says_what_was_left_out(text: str, longest: int) -> None:
    """Both its ends stay: names often differ in their last characters."""
    cut = wording.cut(text, longest)
    if len(text) <= longest:
        assert cut == text
    else:
        head, left_out, tail = cut.split("…")[0], len(text) - longest, cut[-30:]
        assert text.startswith(head[:50])
        assert text.endswith(tail)
        assert f"[{left_out:,} characters]" in cut


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (0.0421, "0.042"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (None, "–")],
)
def test_three_digits_matter(number: float | None, said: str) -> None:
    """And no more than three stand behind the point."""
    assert wording.significant(number) == said


def test_a_share_is_never_rounded_to_nothing_or_to_all() -> None:
    """One lost of a million is not 0 %, and the others are not all."""
    assert wording.share(0, 10**6) == "0.0 %"
    assert wording.share(1, 10**6) == "below 0.1 %"
    assert wording.share(10**6 - 1, 10**6) == "above 99.9 %"
    assert wording.share(10**6, 10**6) == "100.0 %"
    assert wording.share(0, 0) == wording.NONE


@pytest.mark.parametrize(
    ("iso", "said"),
    [
        ("2026-11-16T06:00:00.123Z", "2026-11-16 06:00:00"),
        ("2026-11-16T06:00:00+02:00", "2026-11-16 04:00:00"),
        ("2026-11-16T06:00:00", "2026-11-16 06:00:00"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
        ("9007199254740991 ms", "9007199254740991 ms"),
        (None, "–"),
    ],
)
def test_times_are_in_utc(iso: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the page is made; what is no time, or none of the calendar's, stands as it is."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert wording.time_text(iso) == said
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nouns_are_counted() -> None:
    """One is one."""
    assert wording.counted(1, "query") == "1 query"
    assert wording.counted(2_000, "query") == "2,000 queries"
    assert wording.counted(0, "event") == "0 events"


def test_a_missing_name_is_no_empty_one() -> None:
    """Nor is either taken for a name that reads so."""
    said = {wording.name(None), wording.name(""), wording.name("unknown"), wording.name("empty")}
    assert len(said) == 4
