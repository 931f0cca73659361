"""``make run-cluster`` on a machine without Java."""

from __future__ import annotations

import pytest

from tests.kafka_rig.rig import Absent
from tools.example_cluster import __main__ as example


def test_absent_kafka_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(example, "prepare", lambda: Absent("no java"))
    assert example.main([]) == 1
    assert capsys.readouterr().err == (
        "No Kafka here: no java. `make run-cluster` needs Java 17 (a JDK) and Maven;"
        " `make run` shows the daemon without them.\n"
    )
