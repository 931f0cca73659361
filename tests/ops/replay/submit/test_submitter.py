"""Submissions as a user sees them: output, exit code and remaining files.

``spark-submit`` is a script here, so that these tests need no Spark.
"""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.replay.submit.programs import write_java, write_spark
from tests.support.programs import run_program

ROOT = Path(__file__).parents[4]
TIDY = """
def tidy(*_):
    open("tidied", "w").close(); os._exit(0)
signal.signal(signal.SIGTERM, tidy)
"""
STARTED = (
    "authorizerd replay: engine: spark (options of Spark were given)",
    "authorizerd replay: the job's code is authorizerd-replay-",
)
"""The beginnings of the lines before that of spark-submit."""


class Submission:
    """``python -m authorizerd.replay ingest`` with a Spark and a Java that are scripts."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        (folder / "audit.log").touch()
        home = write_spark(folder / "spark", f"import os, signal, sys, time\n{script}")
        self.words = [
            *(sys.executable, "-m", "authorizerd.replay", "ingest", "--spark-home", str(home)),
            *("--input", "audit.log", "--out", "out"),
        ]
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "JAVA_HOME": str(write_java(folder / "java", "17.0.1")),
            "TMPDIR": str(self.temporary),
        }

    def run(self, *more: str) -> tuple[int, str, list[str]]:
        """Return the exit code, standard output, and standard error from Spark's output on."""
        ran = self.start([*self.words, *more])
        said = ran.stderr.splitlines()
        while said and (said[0].startswith(STARTED) or "/bin/spark-submit" in said[0]):
            del said[0]
        return ran.returncode, ran.stdout, said

    def start(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run ``words`` in this environment to their end."""
        return run_program(*words, cwd=self.folder, env=self.environment)

    def left(self) -> list[str]:
        return [path.name for path in self.temporary.rglob("*") if path.is_file()]


def test_results_and_messages_are_forwarded(tmp_path: Path) -> None:
    script = """
print("a result")
print("authorizerd replay: running: stage 0: 1 of 2 tasks")
print("authorizerd replay: a message")
print("authorizerd replay trace: a warning of Python's")
sys.stderr.write("WARN Spark speaks\\n")
sys.exit(3)"""
    submission = Submission(tmp_path, script)
    code, printed, said = submission.run()
    assert (code, printed) == (3, "a result\n")
    progress = "authorizerd replay: running: stage 0: 1 of 2 tasks"
    assert said == [progress, "authorizerd replay: a message"]
    assert submission.left() == [], "warnings alone, such as PySpark's about pandas, keep no log"
    code, printed, said = submission.run("--verbose")
    assert (code, printed) == (3, "a result\n")
    assert {"a warning of Python's", "WARN Spark speaks"} < set(said)


def test_reported_fault_is_not_reported_again(tmp_path: Path) -> None:
    script = "print('authorizerd replay: enough was said'); sys.exit(int(os.environ['CODE']))"
    submission = Submission(tmp_path, script)
    for code in (0, 1, 3):
        submission.environment["CODE"] = str(code)
        assert submission.run() == (code, "", ["authorizerd replay: enough was said"])
        assert submission.left() == []


def test_trace_of_a_fault_is_kept(tmp_path: Path) -> None:
    script = """
sys.stderr.write("WARN beside it\\n")
print("authorizerd replay trace: Traceback (most recent call last):")
print("authorizerd replay: KeyError: 'topic'"); sys.exit(1)"""
    submission = Submission(tmp_path, script)
    code, printed, (what, where) = submission.run()
    assert (code, printed, what) == (1, "", "authorizerd replay: KeyError: 'topic'")
    log = Path(where.removeprefix("authorizerd replay: Spark's output is in "))
    # Each stream has its own reader, so the order of their lines is open.
    assert sorted(log.read_text().splitlines(keepends=True)) == [
        "Traceback (most recent call last):\n",
        "WARN beside it\n",
    ]
    assert submission.left() == ["spark.log"]


@pytest.mark.parametrize(("script", "said"), [
    ('sys.stderr.write(\'Exception in thread "main" org.apache.spark.SparkException: No'
     " HADOOP_CONF_DIR\\n\\tat org.apache\\n'); sys.exit(1)", "Spark: No HADOOP_CONF_DIR"),
    ("sys.stderr.write('Error: No such master\\n'); sys.exit(1)", "Spark: No such master"),
    ("sys.exit(1)", "Spark ended with exit code 1"),
    ("print('authorizerd replay: well'); sys.exit(134)", "Spark ended with exit code 134"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "Spark ended with exit code -9"),
])  # fmt: skip
def test_fault_of_spark_is_one_line(tmp_path: Path, script: str, said: str) -> None:
    submission = Submission(tmp_path, script)
    code, _, lines = submission.run()
    assert code == 1
    assert lines[-2] == f"authorizerd replay: {said}"
    assert submission.left() == ["spark.log"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_process_group(tmp_path: Path, number: signal.Signals) -> None:
    script = """inner = os.fork()
if inner == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600); os._exit(0)
# A handler could miss a signal that arrives just before time.sleep.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("authorizerd replay:", inner, flush=True)
signal.sigwait([signal.SIGTERM]); open("tidied", "w").close()"""
    submission = Submission(tmp_path, script)
    with subprocess.Popen(
        submission.words,
        env=submission.environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for _ in range(3):
            process.stderr.readline()
        inner = int(process.stderr.readline().removeprefix("authorizerd replay: "))
        process.send_signal(number)
        try:
            said = process.communicate(timeout=30)[1]
        finally:
            is_left = is_running(inner)
            for left in (process.pid, inner):
                if is_running(left):
                    os.kill(left, signal.SIGKILL)
    assert (said, process.returncode) == ("authorizerd replay: stopped\n", 128 + number)
    assert not is_left
    assert (tmp_path / "tidied").exists()
    assert submission.left() == []


def is_running(process: int) -> bool:
    """Return True if the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_closed_pipe_ends_the_run(tmp_path: Path) -> None:
    script = f"""{TIDY}until = time.monotonic() + 30
while time.monotonic() < until:
    try: os.write(1, b"a result\\n" * 1000)
    except OSError: time.sleep(0.01)"""
    submission = Submission(tmp_path, script)
    words = f"{shlex.join(submission.words)} | head -1"
    ran = submission.start(["/bin/bash", "-o", "pipefail", "-c", words])
    assert (ran.returncode, ran.stdout) == (0, "a result\n")  # the code of the job
    assert (tmp_path / "tidied").exists()
    assert "Traceback" not in ran.stderr


def test_printed_line_runs_the_same_job(tmp_path: Path) -> None:
    submission = Submission(tmp_path, "print(len(sys.argv)); sys.exit(3)")
    submission.environment["JAVA_HOME"] = "/no/java"
    code, printed, said = submission.run("--print")
    assert code == 0
    assert said[-1].startswith(
        "authorizerd replay: nothing was run; the files for this command are in"
    )
    assert {"plan.json", "authorizerd-replay.py", "log4j2.properties"} < set(submission.left())
    words = shlex.split(printed)
    assert all(Path(word).exists() for word in words if word.startswith(str(submission.temporary)))
    assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 3


def test_nothing_starts_without_what_it_needs(tmp_path: Path) -> None:
    submission = Submission(tmp_path, "open('started', 'w').close()")
    code, printed, (line,) = submission.run("--archives", "missing.tgz#env")
    assert (code, printed) == (1, "")
    assert line == "authorizerd replay: --archives: missing.tgz: expected a file, found none"
    assert not (tmp_path / "started").exists()
    assert submission.left() == []


def test_spark_connect_of_the_shell_is_not_used(tmp_path: Path) -> None:
    """PySpark would connect to that server in place of ``--master``."""
    submission = Submission(tmp_path, "print(os.environ.get('SPARK_REMOTE'))")
    submission.environment["SPARK_REMOTE"] = "sc://host"
    assert submission.run()[:2] == (0, "None\n")
