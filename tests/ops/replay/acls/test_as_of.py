from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.as_of import TIME_MS_MIN
from authorizerd.replay.acls.as_of import AtOffset, AtTime, parse_as_of
from authorizerd.replay.text import format_time


@pytest.mark.parametrize(("text", "expected"), [
    ("0", AtOffset(0)), ("2632", AtOffset(2632)), (str(TIME_MS_MIN - 1), AtOffset(TIME_MS_MIN - 1)),
    (str(TIME_MS_MIN), AtTime(TIME_MS_MIN)), ("1795278666718", AtTime(1_795_278_666_718)),
    ("2026-11-21T16:31:06.718Z", AtTime(1_795_278_666_718)),
    ("2026-11-21T16:31:06,718", AtTime(1_795_278_666_718)),
    ("2026-11-21 18:31:06.718999+02:00", AtTime(1_795_278_666_718)),
    ("2026-11-21", AtTime(1_795_219_200_000)), ("1969-12-31T23:59:59.9999Z", AtTime(-1)),
])  # fmt: skip
def test_moment_is_an_offset_milliseconds_or_a_time(text: str, expected: object) -> None:
    assert parse_as_of(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1", "now", "١٢", "2026-13-01", "1.5", "0x10", "9" * 19, "9" * 9000, "25:00"]
)
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected an offset, or a time|too large for"):
        parse_as_of(text)


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_as_of(text)


@given(st.integers(TIME_MS_MIN, 253_402_300_799_999))
def test_formatted_times_parse_back(time_ms: int) -> None:
    assert parse_as_of(format_time(time_ms)) == AtTime(time_ms)
