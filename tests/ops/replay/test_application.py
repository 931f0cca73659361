"""The Spark application before it starts Spark."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from authorizerd.replay import application
from tests.support.fixture_types import Capture, MonkeyPatch

ON = "--events events --out o"


@pytest.fixture(autouse=True)
def keep_streams(monkeypatch: MonkeyPatch) -> None:
    """Undo what the application does to standard error and warnings."""
    import warnings

    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


@pytest.mark.parametrize(("words", "said"), [
    ("", "the following arguments are required: COMMAND"),
    ("report", "unknown command 'report': expected one of ingest, whatif, usage, load"),
    ("ingest --out o", "ingest: the following arguments are required: --input"),
    ("ingest --input a --out o --conf a=secret",
     "ingest: --conf: give it to spark-submit, before authorizerd-replay.py"),
    (f"whatif --acls a.txt {ON} --master=yarn", "whatif: --master: give it to spark-submit"),
    ("whatif --logs a.log --acls a.txt --out o", "--logs: expected --events: run the command"),
    (f"usage --acls a.txt {ON} --engine local", "--engine local: expected auto or spark"),
    (f"usage --acls kafka://h:1 {ON}", "--acls: kafka://h:1: expected a file"),
    (f"whatif --acls a.txt --baseline-acls kafka://h:1 {ON}",
     "--baseline-acls: kafka://h:1: expected a file"),
])  # fmt: skip
def test_wrong_words_are_named_before_spark_starts(words: str, said: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        application.main(words.split())
    assert ended.value.code == 2
    fault, help_line = capsys.readouterr().out.splitlines()
    assert fault.startswith("authorizerd replay: authorizerd-replay.py")
    assert said in fault
    assert "secret" not in fault
    assert help_line.endswith("--help' for the options.")


def example_words() -> Iterator[list[str]]:
    """Yield the words after the script's name in each example of docs/replay-clusters.md."""
    text = (Path(__file__).parents[3] / "docs/replay-clusters.md").read_text(encoding="utf-8")
    (airflow,) = re.findall(r"application_args=\[(.*?)\]", text, re.DOTALL)
    yield re.findall('"(.*?)"', airflow)
    (steps,) = re.findall(r"authorizerd-replay\.py,\s+(.*)\]'", text)
    yield steps.split(",")
    (operator,) = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    yield yaml.safe_load(operator)["spec"]["arguments"]
    (line,) = re.findall(r"authorizerd-replay\.py \\\n(.*)\n", text)
    yield shlex.split(line)


def test_documented_examples_are_commands() -> None:
    parsed = [application.new_parser().parse_words(words) for words in example_words()]
    assert [Path(each.out).name for each in parsed] == ["table"] * 4
    assert all(each.input for each in parsed)


def test_drivers_missing_module_is_named(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "crc32c", None)
    assert application.main(["ingest"]) == 1
    expected = f"the driver's Python, {sys.executable}, lacks crc32c: install them"
    assert capsys.readouterr().out == f"authorizerd replay: {expected}\n"


def test_unreadable_plan_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    """A plan needs fewer modules: its ACLs were read on another machine."""
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    assert application.main(["--plan", str(plan)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "authorizerd replay trace: Traceback (most recent call last):"
    assert lines[-1].startswith("authorizerd replay: ValidationError: ")
