"""The limit of open files: raised as far as it must be and may be, never lowered."""

from __future__ import annotations

import logging
import resource

import pytest

from daemon.open_files import OTHER_FILES, allow_open_files

Limits = tuple[int, int]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """The limits that the system is said to have, the newest last."""
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
def test_there_is_room_for_connections_and_for_the_log(
    limits: list[Limits], caplog: pytest.LogCaptureFixture, before: Limits, after: Limits
) -> None:
    """A daemon that could open no file could write neither log nor checkpoint."""
    limits.append(before)
    allow_open_files(4096)
    assert limits[-1] == after
    assert not caplog.records


def test_too_low_a_hard_limit_is_told(
    limits: list[Limits], caplog: pytest.LogCaptureFixture
) -> None:
    """All that there is is taken, and the line says what is wanted."""
    limits.append((256, 2048))
    with caplog.at_level(logging.WARNING):
        allow_open_files(4096)
    assert limits[-1] == (2048, 2048)
    (record,) = caplog.records
    assert "2048" in record.message
    assert str(4096 + OTHER_FILES) in record.message
