"""``make run-cluster`` on a machine without Java."""

from tests.kafka_rig.rig import Absent
from tests.support.fixture_types import Capture, MonkeyPatch
from tools.example_cluster import __main__ as example


def test_absent_kafka_is_an_error_with_remedy(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(example, "prepare", lambda: Absent("no java"))
    assert example.main([]) == 1
    assert capsys.readouterr().err == (
        "No Kafka here: no java. `make run-cluster` needs Java 17 (a JDK) and Maven;"
        " `make run` shows the daemon without them.\n"
    )
