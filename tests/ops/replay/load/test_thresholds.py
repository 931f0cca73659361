from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.thresholds import judge, parse_thresholds


@pytest.mark.parametrize(("text", "figure", "comparison", "limit"), [
    ("p99<5ms", "p99", "<", 5_000_000),
    ("p99.9 <= 1.5s", "p99.9", "<=", 1_500_000_000),
    ("max<250us", "max", "<", 250_000),
    ("mismatch=0", "mismatch", "=", 0),
    ("errors=0", "errors", "=", 0),
    ("dropped = 0", "dropped", "=", 0),
    ("rate>=1000", "rate", ">=", 1000),
])  # fmt: skip
def test_thresholds_are_parsed(text: str, figure: str, comparison: str, limit: float) -> None:
    (threshold,) = parse_thresholds(text)
    assert (threshold.figure, threshold.comparison, threshold.limit) == (figure, comparison, limit)


@pytest.mark.parametrize("text", [
    "p98<5ms", "p99<5", "p99<5min", "p99>5ms", "p99=5ms", "p99<-5ms", "mismatch=1", "mismatch<1",
    "rate<5", "rate>=5ms", "fast", "",
])  # fmt: skip
def test_malformed_threshold_is_named_with_the_valid_ones(text: str) -> None:
    with pytest.raises(LoadError) as raised:
        parse_thresholds(f"p99<5ms,{text}")
    assert str(raised.value).startswith(f"threshold {text!r}: expected p50, p90, p99, p99.9 or max")


@given(st.text("p950.<>=msu, rate1", max_size=12))
def test_any_text_gives_thresholds_or_a_load_error(text: str) -> None:
    try:
        parse_thresholds(text)
    except LoadError as error:
        assert "threshold" in str(error)  # noqa: PT017 - whether it raises is not the question


@pytest.mark.parametrize(("text", "passes", "fails"), [
    ("p99<5ms", 4_999_999, 5_000_000),
    ("p99<=5ms", 5_000_000, 5_000_001),
    ("mismatch=0", 0, 1),
    ("rate>=10", 10, 9.99),
    ("rate>=0", 0, None),
])  # fmt: skip
def test_thresholds_are_judged(text: str, passes: float, fails: float | None) -> None:
    (threshold,) = parse_thresholds(text)
    verdicts = [judge(threshold, measured).passed for measured in (passes, fails, None)]
    assert verdicts == [True, False, False]


def test_empty_text_has_no_thresholds() -> None:
    assert parse_thresholds(" ") == ()
    assert [each.figure for each in parse_thresholds("p99<5ms,mismatch=0")] == ["p99", "mismatch"]


def test_measured_value_has_its_unit() -> None:
    measured = {"p99<5ms": 6_500_000.0, "rate>=10": 9.5, "mismatch=0": 3.0, "max<1s": None}
    shown = [
        judge(threshold, measured[threshold.text]).measured_text
        for threshold in parse_thresholds(",".join(measured))
    ]
    assert shown == ["6.5 ms", "9.5/s", "3", "nothing"]
