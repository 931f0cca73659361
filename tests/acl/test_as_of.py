"""A moment is an offset or a time, and a text that might mean two moments is refused."""

import pytest

from authorizerd.acl.as_of import TIME_MS_MIN, AsOf, Moment, format_time, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError

TIME_MS = 1_792_000_000_005


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("0", AsOf(offset=0)),
        ("2806", AsOf(offset=2806)),
        (2806, AsOf(offset=2806)),
        (TIME_MS_MIN - 1, AsOf(offset=TIME_MS_MIN - 1)),
        (TIME_MS_MIN, AsOf(time_ms=TIME_MS_MIN)),
        (str(TIME_MS), AsOf(time_ms=TIME_MS)),
        ("2026-10-14T17:46:40.005Z", AsOf(time_ms=TIME_MS)),
        ("2026-10-14T19:46:40.005+02:00", AsOf(time_ms=TIME_MS)),
        ("2026-10-14 17:46:40.005999Z", AsOf(time_ms=TIME_MS)),
        ("2026-10-14T17:46:40Z", AsOf(time_ms=TIME_MS - 5)),
        ("2026-10-14T17:46Z", AsOf(time_ms=TIME_MS - 40_005)),
        ("1969-12-31T23:59:59.999Z", AsOf(time_ms=-1)),
        ("0001-01-01T00:00+14:00", AsOf(time_ms=-62_135_596_800_000 - 14 * 3_600_000)),
    ],
)
def test_offsets_and_times(value: str | int, moment: AsOf) -> None:
    """An integer from 2001 on, in milliseconds, is a time. Parts of a millisecond are cut off."""
    assert parse_as_of(value) == moment


@pytest.mark.parametrize(
    "value",
    ["", "yesterday", "-1", -1, "1.5", "2026-13-01T00:00Z", "²", "1e3", 2**63, "9" * 40, "9" * 9999]
)  # fmt: skip
def test_other_values_are_refused(value: str | int) -> None:
    with pytest.raises(InvalidAsOfError, match=r"^expected an offset of the log") as error:
        parse_as_of(value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("value", ["2026-10-14T17:46:40", "2026-10-14", "20261014T174640"])
def test_time_without_a_zone_is_ambiguous(value: str) -> None:
    with pytest.raises(InvalidAsOfError, match="has no time zone, so it is ambiguous: add Z"):
        parse_as_of(value)


def test_control_characters_are_escaped_in_errors() -> None:
    with pytest.raises(InvalidAsOfError, match=r"found '\\x1b\[2J'$"):
        parse_as_of("\x1b[2J")


def test_moments_are_shown_as_offset_and_time() -> None:
    assert str(AsOf(offset=7)) == "offset 7"
    assert str(AsOf(time_ms=TIME_MS)) == "time 2026-10-14T17:46:40.005Z"
    assert str(Moment(7, TIME_MS)) == "offset 7 (2026-10-14T17:46:40.005Z)"
    assert str(Moment(7, None)) == "offset 7"
    assert format_time(-(2**63)) == "-9223372036854775808 ms since 1970"
    assert format_time(0) == "1970-01-01T00:00:00.000Z"
