"""The command line of the rig."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_rig import __main__ as command_line
from tests.kafka_rig.programs import Programs
from tests.kafka_rig.rig import VERSION, Absent, Rig

ROOT = Path(__file__).parents[2]


def test_exit_code_and_output_of_a_tool_are_passed_on(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.write("java", 'echo "$*"; echo wrong >&2; exit 3')
    monkeypatch.setattr(command_line, "prepare", lambda **_: Rig("a.jar"))
    assert command_line.main(["kafka-topics", "--list"]) == 3
    printed = capsys.readouterr()
    assert printed.out.endswith("org.apache.kafka.tools.TopicCommand --list\n")
    assert printed.err == "wrong\n"


@pytest.mark.parametrize("named", [[], ["4.4.0"]])
def test_first_argument_may_name_the_release(
    named: list[str], programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.write("java", "")
    monkeypatch.setattr(command_line, "prepare", lambda *, version: Rig(version))
    assert command_line.main([*named, "kafka-topics", "--list"]) == 0
    assert f" -cp {named[0] if named else VERSION} " in programs.calls[0]


def test_unknown_command_and_missing_kafka_are_reported(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["kafka-nothing"]) == 2
    assert "python -m tests.kafka_rig" in capsys.readouterr().err
    monkeypatch.setattr(command_line, "prepare", lambda **_: Absent("no mvn"))
    assert command_line.main(["kafka-acls"]) == 1
    assert capsys.readouterr().err == "no Kafka: no mvn\n"
    monkeypatch.setattr(command_line, "prepare", lambda **_: Rig(""))
    assert command_line.main(["kafka-acls"]) == 1
    assert capsys.readouterr().err == "java: No such file or directory\n"


def test_run_formats_a_new_directory_and_runs_until_a_signal(
    programs: Programs, tmp_path: Path
) -> None:
    ready = "trap 'exit 0' TERM; echo 'Kafka Server started'; while :; do sleep 0.05; done"
    programs.write("java", f'case "$*" in *kafka.Kafka*) {ready};; esac')
    run = "import sys; from tests.kafka_rig import __main__ as m, rig; "
    run += "m.prepare = lambda **_: rig.Rig(''); sys.exit(m.main(['run']))"
    process = subprocess.Popen(
        [sys.executable, "-c", run],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert said[0].startswith("PLAINTEXT 127.0.0.1:")
    assert said[2].startswith("as alice: --command-config ")
    formatted, started = programs.calls
    assert "StorageTool format" in formatted
    assert started.endswith(f"kafka.Kafka {tmp_path}/.run/kafka_rig/server.properties")
