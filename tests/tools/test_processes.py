"""Other programs are started, ended and measured."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import processes
from tools.processes import (
    ProcessError,
    capture_json,
    capture_output,
    children_of,
    cpu_seconds,
    resident_bytes,
    running,
    sampling,
    sum_increases,
    wait_for_file,
)


def python(code: str) -> list[str | Path]:
    return [sys.executable, "-S", "-c", code]


def test_output_is_read_as_json() -> None:
    assert capture_json(python("print('[1, 2.5]')"), list[float], timeout_seconds=10) == [1.0, 2.5]


@pytest.mark.parametrize(("command", "complaint"), [
    (["no-such-program"], "no-such-program: No such file"),
    (python("import sys; sys.exit('no network')"), "exit code 1: no network"),
    (python("print('nothing')"), "JSON is malformed"),
])  # fmt: skip
def test_failed_program_is_named(command: list[str | Path], complaint: str) -> None:
    with pytest.raises(ProcessError, match=complaint):
        capture_json(command, list[float], timeout_seconds=10)


def test_hanging_program_is_killed() -> None:
    begun = time.monotonic()
    with pytest.raises(ProcessError, match="not finished in"):
        capture_output(python("import time; time.sleep(60)"), timeout_seconds=0.1)
    assert time.monotonic() - begun < 30


def test_program_ends_with_the_block(tmp_path: Path) -> None:
    with running(python("import time; time.sleep(60)"), tmp_path / "log") as process:
        assert process.poll() is None
    assert process.returncode == -15


def test_wait_for_a_file_ends_with_its_writer(tmp_path: Path) -> None:
    with (
        running(python("raise SystemExit(3)"), tmp_path / "log") as process,
        pytest.raises(ProcessError, match="exit code 3 before it was ready"),
    ):
        wait_for_file(tmp_path / "ready", process, 60)


def test_file_is_returned_once_it_exists(tmp_path: Path) -> None:
    (tmp_path / "ready").write_bytes(b"here")
    with running(python("import time; time.sleep(60)"), tmp_path / "log") as process:
        assert wait_for_file(tmp_path / "ready", process, 60) == b"here"


def test_cpu_time_and_memory_are_those_of_the_process() -> None:
    # A process of its own: other tests may have left children to this one.
    code = (
        "import os\nwhile sum(os.times()[:2]) < 0.3: pass\nprint(sum(os.times()[:2]), flush=True)"
    )
    with subprocess.Popen(
        python(f"{code}\ninput()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        used = float(child.stdout.readline())
        assert used - 0.1 <= cpu_seconds(child.pid) <= used + 0.1
        child.communicate(b"\n")
    before = resident_bytes()
    block = bytearray(64 * 1024 * 1024)
    assert resident_bytes() - before > 60 * 1024 * 1024
    del block


def test_cpu_time_includes_children_of_any_thread() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = cpu_seconds(os.getpid())
    children = []

    def start() -> None:
        child = subprocess.Popen(python(busy), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with children[0] as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(os.getpid()) - before >= 0.25
        child.communicate(b"\n")
    assert cpu_seconds(os.getpid()) - before >= 0.25, "a child that has ended still counts"


def test_sigterm_ends_a_program_and_what_it_has_started() -> None:
    code = """
import os, sys, time
from pathlib import Path
from tools.processes import end_at_sigterm, running
end_at_sigterm()
with running([sys.executable, "-c", "import time; time.sleep(60)"], Path(os.devnull)) as child:
    print(child.pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        child = Path(f"/proc/{int(program.stdout.readline())}")
        program.terminate()
        program.terminate()
        assert program.wait(30) == 128 + signal.SIGTERM
    assert not child.exists()


def test_thread_and_child_that_end_meanwhile_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no files any more, though they were listed."""
    of_threads = [*Path(f"/proc/{os.getpid()}").glob("task/*/children")]
    ended = Path("/proc/self/task/0/children")
    with running(python("import time; time.sleep(60)"), Path(os.devnull)) as child:
        monkeypatch.setattr(Path, "glob", lambda folder, pattern: [ended, *of_threads])
        assert child.pid in children_of(os.getpid())
    monkeypatch.setattr(processes, "children_of", lambda process_id: [child.pid])
    assert cpu_seconds(os.getpid()) > 0


def test_memory_of_a_process_is_read_without_its_children() -> None:
    """Both take the same 32 MiB: a child has its own, and shares what its parent had written."""
    code = """
import os
from tools.processes import children_of, read_memory
mib = 1 << 20
block = bytearray(b"x") * (32 * mib)
alone = read_memory(os.getpid())
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.read(reading, 1)
    os._exit(0)
beside, shared = read_memory(os.getpid()), children_of(os.getpid())
os.write(writing, b"x")
os.wait()
assert shared == [child]
assert alone.uss_bytes > 32 * mib
assert alone.pss_bytes >= alone.uss_bytes
assert beside.uss_bytes < 16 * mib, beside
assert beside.pss_bytes < alone.pss_bytes - 12 * mib, beside
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_time_of_a_process_that_took_it_with_it_counts() -> None:
    assert sum_increases([2.0, 5.0, 1.0, 1.5]) == 3.5
    readings: Iterator[int | OSError] = iter([1, OSError("it has ended"), 2, 3])

    def take() -> int:
        reading = next(readings, 3)
        if isinstance(reading, OSError):
            raise reading
        return reading

    with sampling(take) as samples:
        while len(samples) < 3:
            time.sleep(0.01)
    assert samples[:3] == [1, 2, 3]
