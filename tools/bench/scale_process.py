"""One size of ``tools.bench.crowd``, in a process of its own: write its files, or decide in memory.

    python -m tools.bench.scale_process write ACLS DIRECTORY
    python -m tools.bench.scale_process measure ACLS DIRECTORY

The process is new, so its memory is free again afterwards. Millions of ACLs take gigabytes.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import AclAdded
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tools.bench.authzen import SURFACE
from tools.bench.checkpoint import write_checkpoint, write_log
from tools.bench.crowd import crowd
from tools.bench.figures import percentile
from tools.bench.kafka_peer import CallTimes
from tools.bench.loading import LoadReport, load_snapshot
from tools.bench.processes import Command, capture_json, capture_output
from tools.bench.sets import AclSet
from tools.bench.snapshot_updates import measure_updates

LOG: Final = "log"
CHECKPOINT: Final = "checkpoint"
QUESTIONS: Final = "questions.jsonl"
BODIES: Final = "questions.bodies"
"""The questions as requests of AuthZEN, one per line."""

_UPDATES: Final = 10_000
_WARM_UPS: Final = 3
_SETTINGS: Final = AuthorizerSettings()
_TIMEOUT_SECONDS: Final = 900.0


class InMemory(msgspec.Struct, frozen=True):
    """A load without an event loop, and what follows. Times of calls are in µs of wall time.

    ``answers`` has an A or a D for each question.
    """

    loading: LoadReport
    load_cpu_seconds: float
    decision_us: CallTimes
    update_us: CallTimes
    answers: str


def write_files(acls: int, directory: Path) -> None:
    """Write a size's log, checkpoint and questions below ``directory``, in another process.

    Raises:
        ProcessError: the process failed.
    """
    capture_output(_command("write", acls, directory), timeout_seconds=_TIMEOUT_SECONDS)


def measure_in_memory(acls: int, directory: Path) -> InMemory:
    """Load the checkpoint below ``directory`` in another process, decide and update.

    Raises:
        ProcessError: the process failed.
    """
    command = _command("measure", acls, directory)
    return capture_json(command, InMemory, timeout_seconds=_TIMEOUT_SECONDS)


def find_checkpoint(directory: Path) -> Path:
    """Return the checkpoint that ``write_files`` has written."""
    (path,) = (directory / CHECKPOINT / METADATA_TOPIC_DIRECTORY).iterdir()
    return path


def _command(what: str, acls: int, directory: Path) -> Command:
    return [sys.executable, "-m", "tools.bench.scale_process", what, str(acls), directory]


def _write(acl_set: AclSet, directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / QUESTIONS).write_bytes(b"\n".join(acl_set.question_lines()))
    bodies = map(msgspec.json.encode, map(SURFACE.one, acl_set.questions()))
    (directory / BODIES).write_bytes(b"\n".join(bodies))
    write_log(directory / LOG, acl_set.added())
    write_checkpoint(directory / CHECKPOINT, acl_set.added())


def _measure(acl_set: AclSet, directory: Path) -> InMemory:
    begun = time.process_time()
    snapshot, loading = load_snapshot(directory / CHECKPOINT)
    cpu = time.process_time() - begun
    gc.freeze()  # as the daemon does once it has loaded
    decided, answers = _decide(snapshot, acl_set)
    # Ids look random, so the first ones of the map belong to unrelated ACLs.
    some = islice(snapshot.acls.items(), _UPDATES)
    updates, _ = measure_updates(snapshot, [AclAdded(*each) for each in some], _UPDATES)
    updated = CallTimes(updates.p50, updates.p99, updates.max)
    return InMemory(loading, cpu, decided, updated, answers)


def _decide(snapshot: AclSnapshot, acl_set: AclSet) -> tuple[CallTimes, str]:
    """Ask each question in a call of its own; only the last of several rounds is timed."""
    asked = [msgspec.structs.astuple(question) for question in acl_set.questions()]
    times: list[float] = []
    answers: list[bool] = []
    now = time.perf_counter_ns
    gc.disable()
    for _ in range(_WARM_UPS + 1):
        times.clear()
        answers.clear()
        for principal, host, operation, resource_type, name in asked:
            start = now()
            allowed = authorize(
                snapshot, _SETTINGS, principal, host, operation, resource_type, name
            )
            times.append((now() - start) / 1000)
            answers.append(allowed)
    gc.enable()
    times.sort()
    return (
        CallTimes(percentile(times, 50), percentile(times, 99), times[-1]),
        "".join("A" if allowed else "D" for allowed in answers),
    )


def main() -> None:
    what, acls, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    acl_set = crowd(acls)
    if what == "write":
        _write(acl_set, directory)
    else:
        report = _measure(acl_set, directory)
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
