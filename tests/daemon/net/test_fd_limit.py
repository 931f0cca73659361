"""The limit of open files: raised as far as necessary and possible, never lowered."""

from __future__ import annotations

import logging
import resource

import pytest

from authorizerd.daemon.net.fd_limit import OTHER_FILES, allow_open_files, divide

Limits = tuple[int, int]

WANTED = {"a": 1024, "b": 2048, "c": 1024}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """The simulated limits of the system, the newest last."""
    known: list[Limits] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: known[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: known.append(limit))
    return known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 1 << 20), (4096 + OTHER_FILES, 1 << 20)),
        ((1024, resource.RLIM_INFINITY), (4096 + OTHER_FILES, resource.RLIM_INFINITY)),
        ((4096 + OTHER_FILES, 1 << 20), (4096 + OTHER_FILES, 1 << 20)),
        ((1 << 20, 1 << 20), (1 << 20, 1 << 20)),
        (
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        ),
    ],
)
def test_limit_of_open_files_covers_connections_and_the_log(
    limits: list[Limits], caplog: pytest.LogCaptureFixture, before: Limits, after: Limits
) -> None:
    limits.append(before)
    assert allow_open_files(WANTED) == WANTED
    assert limits[-1] == after
    assert not caplog.records


@pytest.mark.parametrize(
    ("most", "granted"),
    [
        (2048, {"a": 640, "b": 640, "c": 640}),
        (64, {"a": 5, "b": 6, "c": 5}),
        (4, dict.fromkeys(WANTED, 1)),
    ],
)
def test_connections_are_capped_by_too_low_a_hard_limit(
    limits: list[Limits], caplog: pytest.LogCaptureFixture, most: int, granted: dict[str, int]
) -> None:
    """Files are kept for the log; the warning has the required and the actual limit."""
    limits.append((min(256, most), most))
    with caplog.at_level(logging.WARNING):
        assert allow_open_files(WANTED) == granted
    assert limits[-1] == (most, most)
    (record,) = caplog.records
    assert f"the limit of open files is {most}," in record.message
    assert str(4096 + OTHER_FILES) in record.message
    assert f"at most {max(granted.values())} connections" in record.message


@pytest.mark.parametrize(
    ("wanted", "total", "granted"),
    [
        ({"a": 10, "b": 2, "c": 10}, 16, {"a": 7, "b": 2, "c": 7}),
        ({"a": 10, "b": 2}, 100, {"a": 10, "b": 2}),
        ({"a": 10, "b": 2}, 0, {"a": 1, "b": 1}),
        ({}, 5, {}),
    ],
)
def test_unused_part_of_an_endpoint_goes_to_the_others(
    wanted: dict[str, int], total: int, granted: dict[str, int]
) -> None:
    """Each endpoint gets its own part, and at least one connection."""
    assert divide(wanted, total) == granted
