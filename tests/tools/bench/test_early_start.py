"""The measurement of an early listener."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_files import write_file
from tools.bench.checkpoint import write_checkpoint
from tools.bench.early_start import EARLY, ENDPOINTS, LATE, start_early
from tools.bench.processes import ProcessError
from tools.bench.sets import wide


def test_start_is_measured_until_every_endpoint_is_open(tmp_path: Path) -> None:
    """A set this small may be loaded before the first request, so there may be no refusal."""
    acl_set = wide(1000, 2)
    write_checkpoint(tmp_path / "log", acl_set.added())
    early = start_early(tmp_path / "log", tmp_path / "run")
    assert early.acls == sum(1 for _ in acl_set.acls())
    assert set(early.opened_s) == set(ENDPOINTS)
    assert 0 < early.opened_s[EARLY] <= early.opened_s[LATE]
    assert early.super_user_ms
    assert min(early.super_user_ms) > 0
    assert 0 <= early.refused <= len(early.super_user_ms)


def test_daemon_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    write_file(tmp_path / "log", "00000000000000000000.log", b"no log")
    (tmp_path / "log" / "meta.properties.format").touch()
    with pytest.raises(ProcessError, match="bound no ports"):
        start_early(tmp_path / "log", tmp_path / "run")
