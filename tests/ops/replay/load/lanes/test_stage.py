from __future__ import annotations

import pytest


@pytest.mark.parametrize(("master", "failures", "speculation", "complaint"), [
    ("local", None, None, None),
    ("local[2]", None, None, None),
    ("local[2,1]", None, None, None),
    ("local[*]", "4", "false", None),
    ("local[2, 4]", "1", None, "spark.task.maxFailures is 4"),
    ("yarn", "1", "false", None),
    ("yarn", None, None, "spark.task.maxFailures is not set, which means 4"),
    ("spark://h:7077", "2", None, "spark.task.maxFailures is 2"),
    ("yarn", "1", "true", "spark.speculation is true"),
])  # fmt: skip
def test_settings_that_allow_a_second_attempt_are_rejected(
    master: str, failures: str | None, speculation: str | None, complaint: str | None
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.lanes.stage import attempts_refusal

    refusal = attempts_refusal(master, failures=failures, speculation=speculation)
    assert (refusal is None) is (complaint is None)
    assert complaint is None or complaint in str(refusal)
