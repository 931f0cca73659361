from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from authorizerd.replay.local.inputs import find_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("text", ["link/..", "link/../b.log", "link/../../logs/b.log", "logs"])
def test_logs_are_those_that_an_ingest_finds(tmp_path: Path, text: str) -> None:
    """A path with ``..`` behind a link continues above the link's target."""
    from authorizerd.replay.ingest.inputs import find_inputs

    (tmp_path / "logs/old").mkdir(parents=True)
    (tmp_path / "logs/b.log").touch()
    (tmp_path / "b.log").touch()
    (tmp_path / "link").symlink_to("logs/old")
    local = cast("SparkSession", SimpleNamespace(conf={"spark.master": "local[1]"}))
    found = [f"file:{path}" for path in find_logs((f"{tmp_path}/{text}",))]
    assert found == [file.uri for file in find_inputs(local, (f"{tmp_path}/{text}",))]
    assert found == [f"file:{tmp_path}/logs/b.log"]
