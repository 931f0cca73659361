"""``make run-cluster``: what it prints, and that nothing is left running."""

from __future__ import annotations

import re
import subprocess
import sys

from ops.kafka_rig.rig import Rig
from tests.support.daemon_process import ROOT

SECONDS_MAX = 120


def test_daemons_allow_once_kafkas_tool_created_the_acl(rig: Rig) -> None:
    """``rig`` has prepared Kafka's jars in the folder that the example uses."""
    done = subprocess.run(
        [sys.executable, "-m", "ops.example_cluster"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    before, created, after = done.stdout.partition("kafka-acls --add")
    assert created
    for printed, decision in ((before, "false"), (after, "true")):
        answers = re.findall(r'daemon (\d), http://\S+: \{"decision":(\w+)', printed)
        assert answers == [("1", decision), ("2", decision)], done.stdout
    assert "secret" not in done.stdout
    assert done.stdout.endswith("have ended.\n")
