from __future__ import annotations

import logging

from authorizerd.daemon.logging.queue import LINES_PER_SECOND_MAX, LogLimit


def record(message: str, number: int) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, message, (number,), None)


def test_flood_of_one_kind_is_limited_and_counted() -> None:
    now = 100.0
    limit = LogLimit(lambda: now)
    passed = [limit.filter(record("closed: %d", number)) for number in range(50)]
    assert passed == [True] * LINES_PER_SECOND_MAX + [False] * (50 - LINES_PER_SECOND_MAX)
    now += 1
    later = record("closed: %d", 50)
    assert limit.filter(later)
    left_out = 50 - LINES_PER_SECOND_MAX
    assert later.getMessage() == f"closed: 50 ({left_out} similar lines were dropped)"
    again = record("closed: %d", 51)
    assert limit.filter(again)
    assert again.getMessage() == "closed: 51"


def test_other_kinds_are_not_limited() -> None:
    limit = LogLimit(lambda: 0.0)
    for number in range(50):
        limit.filter(record("closed: %d", number))
    assert limit.filter(record("ready: %d", 1))
