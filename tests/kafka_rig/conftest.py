from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka_rig.programs import Programs


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    directory = tmp_path / "programs"
    directory.mkdir()
    return Programs(directory, monkeypatch)
