"""``make replay-demo``: run a real broker's traffic through the pipeline, and check each step.

**Invariant:** every step is a command that a user could type. The results of an earlier run are
replaced. The exit code is 1 if a result is not as expected.
"""

from __future__ import annotations

import lzma
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.errors import AclSourceError, SubmissionError
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.submit.prerequisites import check_java, find_spark_home
from authorizerd.replay.usage.report import decode_usage
from authorizerd.replay.whatif.report import decode_whatif
from tools.daemon_process import ready_daemon
from tools.processes import ProcessError, running
from tools.replay_demo import expectations
from tools.replay_demo.expectations import DemonstrationError
from tools.replay_demo.recording import (
    SUPER_USER,
    ClientTimes,
    Recording,
    client_times,
    unpack_recording,
    write_log,
)

T = TypeVar("T")

FOLDER: Final = Path(".run/replay-demo")
RUN: Final = FOLDER / "run"
"""Contains one result of each kind, for the report."""
SAME: Final = FOLDER / "same"
"""Contains the what-if with the recorded ACLs; the report compares the other what-if with it."""
EVENTS: Final = RUN / "events"
SPEED: Final = 20
SEND_LAG_MS: Final = 1000
"""A generous limit: daemon and generator share this machine, and only the answers matter."""
FAIL_ON: Final = "mismatch=0,errors=0,dropped=0"

_SETTINGS: Final = ("--super-users", SUPER_USER, "--allow-everyone-if-no-acl-found=false")
_SMALL: Final = (  # the usual settings suit millions of lines, not 13,518
    *("--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"),
)
_SECONDS_MAX: Final = 900.0
_DAY_SECONDS: Final = 86_400
_FAULTS: Final = (
    AclSourceError, DemonstrationError, ProcessError, SubmissionError, OSError, ValueError,
    lzma.LZMAError, subprocess.TimeoutExpired, tarfile.TarError,
)  # fmt: skip


def main() -> int:
    """Run all steps and return the exit code."""
    try:
        check_java(os.environ)
        find_spark_home(None, os.environ)
        _demonstrate()
    except _FAULTS as error:
        print(f"replay-demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _demonstrate() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    recording = unpack_recording(FOLDER / "recorded")
    _say("unpacked the metadata log and audit log of an Apache Kafka 4.3.1 broker")
    times = _ingest(recording)
    then = read_acl_source(str(recording.log_dir), as_of=times.last_text, super_users=[SUPER_USER])
    expectations.check_acls(then)
    _say(f"{len(then.acls):,} ACLs were in force at the last client request, {times.last_text}")
    _compare(recording, then, times)
    _compare_later(recording)
    _find_used(recording, times)
    _load(then)
    _replay("report", "--run", RUN)
    _replay("report", "--run", RUN, "--against", SAME)
    pages = f"{RUN / 'report.html'}, and what the later ACLs change is in {RUN / 'difference.html'}"
    _say(f"all results are as expected; the report is in {pages}")


def _ingest(recording: Recording) -> ClientTimes:
    """Ingest the first lines of the log, then the whole, grown log, then the same log again."""
    growing = FOLDER / "growing" / recording.audit_log.name
    growing.parent.mkdir()
    lines = recording.audit_log.read_bytes().splitlines(keepends=True)
    for number in (expectations.FIRST_EVENTS, expectations.EVENTS):
        growing.write_bytes(b"".join(lines[:number]))
        _submit("ingest", "--input", growing, "--out", EVENTS)
        found = _result(EVENTS / "ingest.json", decode_ingested)
        expectations.check_ingest(found, number)
        _say(f"{found.events:,} events of {found.tuples:,} tuples, {found.set_aside} set aside")
    _submit("ingest", "--input", growing, "--out", EVENTS)
    expectations.check_unchanged(_result(EVENTS / "ingest.json", decode_ingested), found)
    _say("the same log again adds nothing")
    return client_times(EVENTS)


def _compare(recording: Recording, then: AclSet, times: ClientTimes) -> None:
    _what_if(recording, SAME, "--as-of", times.last_text, *_SMALL)
    expectations.check_same(_result(SAME / "whatif.json", decode_whatif), then)
    _say("these ACLs decide every request as recorded")


def _compare_later(recording: Recording) -> None:
    out = RUN / "whatif"
    _what_if(recording, out)  # without Spark: so few lines need only one process
    found = _result(out / "whatif.json", decode_whatif)
    expectations.check_later(found, read_acl_source(str(recording.log_dir)))
    (allowed,) = found.newly_allowed.details
    _say(
        f"the ACLs at the end of the log newly deny nothing; they newly allow: {allowed.principal} "
        f"{allowed.operation} {allowed.resource_type} {allowed.resource_name}, "
        f"{allowed.events} events"
    )


def _what_if(recording: Recording, out: Path, *options: str) -> None:
    acls = ("--acls", recording.log_dir, *_SETTINGS)
    _replay("whatif", "--events", EVENTS, *acls, "--out", out, *options)


def _find_used(recording: Recording, times: ClientTimes) -> None:
    """Report which ACLs were used since the first client request; all are older than it."""
    days = (times.end - times.first).total_seconds() / _DAY_SECONDS
    _replay(
        *("usage", "--events", EVENTS, "--acls", recording.log_dir, *_SETTINGS),
        *("--as-of", times.last_text, "--lookback", f"{days:.9f}"),
        *("--out", RUN / "usage"),
    )
    found = _result(RUN / "usage" / "usage.json", decode_usage)
    expectations.check_usage(found)
    _say(
        f"{len(found.used)} ACLs were used, {len(found.unused):,} were never used; removing "
        f"{len(found.suggestions.removals):,} would change no recorded answer"
    )


def _load(then: AclSet) -> None:
    log_dir = FOLDER / "daemon" / "log"
    write_log(log_dir, then)
    if read_acl_source(str(log_dir)).digest != then.digest:
        raise DemonstrationError("the daemon's log does not contain the ACLs written to it")
    settings = {"super.users": SUPER_USER}
    with ready_daemon(FOLDER / "daemon", log_dir, settings) as daemon:
        _say(f"a daemon with those {len(then.acls):,} ACLs is ready, process {daemon.process_id}")
        _replay(
            *("load", "--events", EVENTS, "--target", daemon.decision_stream),
            *("--speed", str(SPEED), "--max-send-lag", str(SEND_LAG_MS)),
            *("--fail-on", FAIL_ON, "--out", RUN / "load"),
        )
    found = _result(RUN / "load" / "load.json", msgspec.json.Decoder(LoadReport).decode)
    expectations.check_load(found)
    _say(
        f"{found.answered:,} questions in {found.plan.planned_s:.1f} s, {SPEED} times as fast as "
        f"recorded: {found.mismatches} answers differ from the record"
    )


def _submit(*words: str | Path) -> None:
    _replay(*words, *_SMALL)


def _replay(*words: str | Path) -> None:
    """Run a command of ``authorizerd replay`` and wait until it ends.

    Raises:
        DemonstrationError: the exit code is not 0.
        subprocess.TimeoutExpired: the command took longer than ``_SECONDS_MAX``, and was ended.
    """
    print(f"$ {shlex.join(['authorizerd', 'replay', *map(str, words)])}", flush=True)
    begun = time.monotonic()
    log = FOLDER / f"{words[0]}.log"
    program = Path(sys.executable).with_name("authorizerd")
    with running([program, "replay", *words], log) as process:
        code = process.wait(_SECONDS_MAX)
    if code:
        raise DemonstrationError(f"exit code {code}: {log.read_text(errors='replace').strip()}")
    _say(f"done in {time.monotonic() - begun:.0f} s")


def _result(path: Path, decode: Callable[[str], T]) -> T:
    return decode(path.read_text(encoding="utf-8"))


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
