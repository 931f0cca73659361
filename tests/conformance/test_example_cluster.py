"""``make run-cluster``: what it prints, and that nothing is left running."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import ROOT, ask_at

SECONDS_MAX = 600  # it starts five JVMs
KAFKA_NODES = 4
DAEMONS = 2


def test_daemons_allow_once_kafkas_tool_created_the_acl(rig: Rig) -> None:
    """``rig`` has prepared Kafka's jars in the folder that the example uses."""
    with started("--once") as example:
        output, errors = example.communicate(timeout=SECONDS_MAX)
    assert (example.returncode, errors) == (0, ""), output
    before, created, after = output.partition("kafka-acls --add")
    assert created
    for printed, decision in ((before, "false"), (after, "true")):
        answers = re.findall(r'daemon (\d), http://\S+: \{"decision":(\w+)', printed)
        assert answers == [("1", decision), ("2", decision)], output
    assert "secret" not in output
    assert output.endswith("have ended.\n")


def test_cluster_runs_until_a_signal_and_leaves_no_process(rig: Rig) -> None:
    with started() as example:
        assert example.stdout is not None
        printed = []
        for line in example.stdout:
            printed.append(line)
            if "-H 'Content-Type" in line:
                break
        [console, _] = re.findall(r"http://(\S+)/console/", "".join(printed))
        assert ask_at(console, "GET", "/console/").status == HTTPStatus.OK
        children = list_descendants(example.pid)
        assert len(children) == KAFKA_NODES + DAEMONS
        for number in (signal.SIGINT, signal.SIGINT):  # the second one changes nothing
            example.send_signal(number)
        rest, errors = example.communicate(timeout=SECONDS_MAX)
    assert (example.returncode, errors) == (0, "")
    assert rest.endswith("have ended.\n")
    assert not [each for each in children if Path(f"/proc/{each}").exists()]


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Start the example. At the end it gets SIGTERM, so that it ends all of its processes."""
    command = [sys.executable, "-m", "tools.example_cluster", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as example:
        try:
            yield example
        finally:
            example.terminate()


def list_descendants(process: int) -> list[int]:
    """Return the ids of the processes that ``process`` has started, and of theirs."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *list_descendants(child))]
