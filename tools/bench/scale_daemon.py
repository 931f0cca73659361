"""The daemon at one size of ``tools.bench.crowd``: starts, memory, decisions and all other work."""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.model import AclFilter, PatternType, Question
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from tools.bench.authzen import SURFACE
from tools.bench.closed_loop import LoadReport
from tools.bench.crowd import GREATEST, crowd
from tools.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.bench.event_loop import LoopReport, read_loop_report, watched_daemon
from tools.bench.figures import percentile, supported_percent
from tools.bench.kafka_load import VERSION, Client
from tools.bench.processes import (
    Command,
    ProcessError,
    capture_output,
    children_of,
    cpu_seconds,
    decode_output,
    read_memory,
    status_bytes,
)
from tools.bench.scale_process import BODIES, CHECKPOINT, LOG
from tools.bench.search_peer import RESOURCES, SUBJECTS, Endpoint
from tools.bench.steady_load import SteadyLoad, SteadyReport

WORKERS: Final = 2
WHO_CAN: Final = "who can"
WHAT_CAN: Final = "what can"
WHAT_CAN_GREATEST: Final = "what can, a fifth of all ACLs"
DESCRIBE: Final = "describeAcls of a principal"
SETTINGS: Final = {
    **PATIENT,
    "super.users": "User:ANONYMOUS",
    "authorizerd.search.timeout.ms": "60000",
}
"""Everybody may do everything, so that one client can create ACLs and search those of others."""

_READY_SECONDS: Final = 900.0
_CHECKPOINT_SECONDS: Final = 300.0
_ANSWER_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_REQUESTS_PER_SECOND: Final = 400.0
_WATCHED_SECONDS: Final = 3.0
_DURING_SECONDS: Final = 2.5
"""A load of 1,000 requests, which support a 99th percentile."""
_QUESTIONS: Final = 10_000
_BYTES_PER_ACL_MIN: Final = 50
_OK: Final = 200


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start until the daemon is ready. No file of the log is in the page cache before it.

    Memory is the daemon's, and that of each worker. ``peak_bytes`` is the daemon's own.
    """

    seconds: float
    cpu_seconds: float
    resident_bytes: int
    pss_bytes: int
    peak_bytes: int
    workers_resident_bytes: list[int]
    workers_pss_bytes: list[int]


class CallsReport(msgspec.Struct, frozen=True):
    """Calls one after the other: their number, and the highest percentile that this supports."""

    calls: int
    p50_ms: float
    percent: int
    ms: float


class DaemonReport(msgspec.Struct, frozen=True, kw_only=True):
    """One size. ``during_checkpoint`` is None if the checkpoint was written too quickly.

    ``loop`` is about another daemon's start from the checkpoint, and some of everything else. Of
    several such daemons, it is the one with the shortest longest step.
    """

    from_log: Start
    checkpoint_seconds: float
    during_checkpoint: SteadyReport | None
    decisions: SteadyReport
    updates: LoadReport
    searches: dict[str, CallsReport]
    stop_seconds: float
    from_checkpoint: Start
    with_workers: Start
    workers_decisions: SteadyReport
    loop: LoopReport


def measure_daemon(
    acls: int, directory: Path, *, seconds: float, calls: int, rounds: int
) -> DaemonReport:
    """Measure one size, whose files ``scale_process`` has written below ``directory``.

    Args:
        seconds: the time of each load, and the most time for each kind of search.
        calls: the most calls of each kind of search.
        rounds: the number of daemons whose event loop is measured.

    Raises:
        ProcessError: a daemon failed.
    """
    first = count(0, int(_REQUESTS_PER_SECOND * seconds))

    def ask(daemon: DaemonProcess, for_seconds: float = seconds) -> SteadyReport:
        return SteadyLoad(
            host=daemon.decision_http,
            path=SURFACE.one_path,
            bodies=directory / BODIES,
            requests_per_second=_REQUESTS_PER_SECOND,
            seconds=for_seconds,
            first=next(first),
        ).run()

    log_dir, place = directory / LOG, directory / "daemon"
    # The log that is read at the start is always long enough for a checkpoint.
    due = {"metadata.log.max.record.bytes.between.snapshots": str(acls * _BYTES_PER_ACL_MIN)}
    with started(place, log_dir, {**SETTINGS, **due}) as (daemon, from_log):
        written, during = _await_checkpoint(log_dir, lambda: ask(daemon, _DURING_SECONDS))
        decisions = ask(daemon)
        updates = _create(daemon, seconds)
        searches = {
            name: _time_calls(call, seconds, calls)
            for name, call in _open_searches(daemon, acls).items()
        }
        begun = time.perf_counter()
    stopped = time.perf_counter() - begun
    with started(place, directory / CHECKPOINT, SETTINGS) as (_, from_checkpoint):
        pass
    settings = {**SETTINGS, "authorizerd.workers": str(WORKERS)}
    with started(place, directory / CHECKPOINT, settings) as (daemon, with_workers):
        workers_decisions = ask(daemon)
    loops = [
        _watch_loop(acls, directory, min(seconds, _WATCHED_SECONDS), calls) for _ in range(rounds)
    ]
    return DaemonReport(
        from_log=from_log,
        checkpoint_seconds=written,
        during_checkpoint=during,
        decisions=decisions,
        updates=updates,
        searches=searches,
        stop_seconds=stopped,
        from_checkpoint=from_checkpoint,
        with_workers=with_workers,
        workers_decisions=workers_decisions,
        loop=min(loops, key=lambda loop: loop.steps.cpu_max),
    )


def _watch_loop(acls: int, directory: Path, seconds: float, calls: int) -> LoopReport:
    place = directory / "daemon"
    with watched_daemon(place, directory / CHECKPOINT, SETTINGS, _READY_SECONDS) as daemon:
        _create(daemon, seconds)
        for call in _open_searches(daemon, acls).values():
            _time_calls(call, seconds, calls)
    return read_loop_report(place)


@contextmanager
def started(
    directory: Path, log_dir: Path, settings: Mapping[str, str]
) -> Iterator[tuple[DaemonProcess, Start]]:
    """Run a daemon on files that are not in the page cache, until the block ends.

    Raises:
        ProcessError: it did not become ready.
    """
    forget_pages(log_dir)
    begun = time.perf_counter()
    with ready_daemon(directory, log_dir, settings, timeout_seconds=_READY_SECONDS) as daemon:
        seconds = time.perf_counter() - begun
        process_id = daemon.process_id
        workers = children_of(process_id)
        yield (
            daemon,
            Start(
                seconds=seconds,
                cpu_seconds=cpu_seconds(process_id),
                resident_bytes=status_bytes(process_id, "VmRSS"),
                pss_bytes=read_memory(process_id).pss_bytes,
                peak_bytes=status_bytes(process_id, "VmHWM"),
                workers_resident_bytes=[status_bytes(worker, "VmRSS") for worker in workers],
                workers_pss_bytes=[read_memory(worker).pss_bytes for worker in workers],
            ),
        )


def forget_pages(directory: Path) -> None:
    """Let the next reader of the files below ``directory`` read them from the disk."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)  # only clean pages can be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _await_checkpoint(
    log_dir: Path, ask: Callable[[], SteadyReport]
) -> tuple[float, SteadyReport | None]:
    """Wait until the daemon has written a checkpoint of the log; ask it meanwhile.

    Return how long the checkpoint took, and the decisions if all of them were asked meanwhile.

    Raises:
        ProcessError: it writes none.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    _wait_for(directory, "*.checkpoint*")
    begun = time.time()
    during = ask()
    is_during = not any(directory.glob("*.checkpoint"))
    _wait_for(directory, "*.checkpoint")
    (path,) = directory.glob("*.checkpoint")
    # The time of its renaming, which may be long ago.
    return max(path.stat().st_ctime - begun, 0.0), during if is_during else None


def _wait_for(directory: Path, pattern: str) -> None:
    give_up = time.monotonic() + _CHECKPOINT_SECONDS
    while not any(directory.glob(pattern)):
        if time.monotonic() > give_up:
            raise ProcessError(f"no checkpoint in {_CHECKPOINT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _create(daemon: DaemonProcess, seconds: float) -> LoadReport:
    """Create ACLs, one after the other; each time is until it is acknowledged."""
    address = next(iter(daemon.listeners.values()))
    command: Command = [
        sys.executable, "-m", "tools.bench.kafka_load", address, "1", "1", str(seconds), "update",
    ]  # fmt: skip
    printed = capture_output(command, timeout_seconds=seconds + _ANSWER_SECONDS)
    # Its first line says that it has begun.
    return decode_output(printed.splitlines()[-1], LoadReport, command)


def _open_searches(daemon: DaemonProcess, acls: int) -> dict[str, Callable[[int], None]]:
    """Return a function for each kind of search; its argument numbers the calls."""

    # Of ten questions, the sixth is about a topic for which the principal has a rule of its own.
    asked = [*crowd(acls, _QUESTIONS).questions()][5::10]
    of_greatest = [msgspec.structs.replace(question, principal=GREATEST) for question in asked]

    def over_http(
        endpoint: Endpoint, questions: Sequence[Question] = asked
    ) -> Callable[[int], None]:
        def call(number: int) -> None:
            body = endpoint.format(questions[number % len(questions)])
            _post(daemon.decision_http, endpoint.path, body)

        return call

    def describe(number: int) -> None:
        principal = asked[number % len(asked)].principal
        wanted = AclFilter(pattern_type=PatternType.ANY, principal=principal)
        address = next(iter(daemon.listeners.values()))
        with closing(Client(address)) as client:
            body = encode_describe_acls_request(VERSION, wanted)
            answer = client.ask(ApiKey.DESCRIBE_ACLS, body)
        if not decode_describe_acls_response(VERSION, answer):
            raise ProcessError("describeAcls found nothing")

    return {
        WHO_CAN: over_http(SUBJECTS),
        WHAT_CAN: over_http(RESOURCES),
        WHAT_CAN_GREATEST: over_http(RESOURCES, of_greatest),
        "explain": over_http(Endpoint("/v1/explain")),
        DESCRIBE: describe,
    }


def _post(host: str, path: str, body: object) -> None:
    """Raise ProcessError unless the answer is 200."""
    with closing(http.client.HTTPConnection(host, timeout=_ANSWER_SECONDS)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        text = answer.read()
    if answer.status != _OK:
        raise ProcessError(f"{path} was answered with {answer.status}: {text[:200]!r}")


def _time_calls(call: Callable[[int], None], seconds: float, calls: int) -> CallsReport:
    """Call for ``seconds``, at most ``calls`` times, at least once."""
    times_ms: list[float] = []
    give_up = time.perf_counter() + seconds
    while not times_ms or (len(times_ms) < calls and time.perf_counter() < give_up):
        begun = time.perf_counter()
        call(len(times_ms))
        times_ms.append((time.perf_counter() - begun) * 1000)
    times_ms.sort()
    percent = supported_percent(len(times_ms))
    return CallsReport(
        len(times_ms), percentile(times_ms, 50), percent, percentile(times_ms, percent)
    )
