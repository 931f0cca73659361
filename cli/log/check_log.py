"""``authorizerd check-log``: validate a log directory, and repair it on request.

A check takes no lock, so it can read a log in use; a repair holds the lock throughout.

Exit codes: 0 the log is valid (or was repaired), 1 the check or repair failed or the arguments are
invalid, 2 the log still has faults.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TextIO

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.flags import add_json_argument, add_switch
from authorizerd.cli.output import paint, print_document
from authorizerd.cli.program.command_parser import CheckParser
from authorizerd.cli.program.ending import saying
from authorizerd.metadata.copy_directory import is_copy_empty, read_mark
from authorizerd.metadata.directory import REPAIR_PREFIX
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.inspection.repair import (
    RepairPlan,
    UnrepairableLogError,
    plan_repair,
    repair,
)
from authorizerd.metadata.lock import is_locked, locked
from authorizerd.metadata.storage import DISK, Storage

EXIT_NOT_CHECKED: Final = CheckParser.exit_code
EXIT_FAULTS: Final = 2

COPY_ADVICE: Final = (
    "the log is a copy: at its next start, the daemon truncates it or starts a new copy, and "
    "fetches what is missing"
)
REPAIR_ADVICE: Final = (
    "run this with --repair, which keeps the original files, or restore a "
    "backup (authorizerd restore)"
)

VALID: Final = "valid"
FAULTY: Final = "faulty"
UNREPAIRABLE: Final = "cannot be repaired"


@dataclass(slots=True)
class Report:
    """Reports the command's findings and actions, line by line or as one document.

    Attributes:
        out: gets each line at once; None if only the document is printed, at the end.
        document: the same as JSON.
    """

    out: TextIO | None
    document: dict[str, Any] = field(default_factory=dict)

    def say(self, *lines: str) -> None:
        if self.out is None:
            return
        for line in lines:
            # A name in a damaged log may contain control characters for a terminal.
            self.out.write(f"{paint(escape_unprintable(line), self.out)}\n")


def new_parser() -> CheckParser:
    parser = CheckParser(
        prog="authorizerd check-log", description="Validate every byte of a metadata log."
    )
    parser.add_argument(
        "directory", type=Path, help="the log directory, which contains __cluster_metadata-0"
    )
    text = (
        "truncate the log before the first unreadable batch, after printing what will be lost; a "
        "copy is kept"
    )
    add_switch(parser, "--repair", text)
    add_json_argument(parser)
    return parser


def run_check_log(
    words: Sequence[str],
    out: TextIO | None = None,
    storage: Storage = DISK,
    now: datetime | None = None,
) -> int:
    out = out or sys.stdout
    arguments = new_parser().parse_args(words)
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # a damaged name may not be valid text
    log_dir: Path = arguments.directory
    report = Report(None if arguments.json else out)
    is_copy = read_mark(log_dir, storage) is not None
    report.document |= {"log_dir": _encodable(log_dir), "is_copy": is_copy, "result": VALID}
    if not arguments.repair:
        _check(log_dir, storage, report)
    elif is_copy:
        raise LogDirectoryError(
            f"{log_dir}: expected a log of its own, found a copy of a followed cluster, which is "
            "never repaired: stop the daemon, run `authorizerd reset-copy`, and start it again"
        )
    else:
        with locked(log_dir):
            _repair(log_dir, storage, report, now or datetime.now(UTC))
    if arguments.json:
        print_document(report.document, out)
    return 0 if report.document["result"] == VALID else EXIT_FAULTS


def _check(log_dir: Path, storage: Storage, report: Report) -> None:
    is_copy = report.document["is_copy"]
    if is_copy and is_copy_empty(log_dir, storage):
        report.say(f"{log_dir}: an empty copy of a followed cluster", VALID)
        return
    is_used = is_locked(log_dir)
    if is_used:
        report.say(
            f"{log_dir}: in use by a daemon or a broker. The end of the log may look faulty "
            "while it is being written: if there is a fault, check again"
        )
    _inspect(log_dir, storage, report, is_used=is_used)
    if report.document["result"] == FAULTY and is_copy:
        report.say(COPY_ADVICE)
    elif report.document["result"] == FAULTY and not is_used:
        report.say(REPAIR_ADVICE)


def _inspect(log_dir: Path, storage: Storage, report: Report, *, is_used: bool = False) -> None:
    inspection = Inspection(log_dir, storage)
    found: dict[str, list[str]] = {"fault": [], "note": []}
    for finding in inspection.findings():
        level = "fault" if isinstance(finding, Fault) else "note"
        found[level].append(_encodable(finding))
        report.say(f"{level}: {finding}")
    faults = len(found["fault"])
    summary = inspection.summary
    acls = None if inspection.snapshot is None else len(inspection.snapshot.acls)
    report.document |= {
        "result": FAULTY if faults else VALID,
        "is_used": is_used,
        "faults": found["fault"],
        "notes": found["note"],
        "segments": summary.segments,
        "checkpoints": summary.checkpoints,
        "batches": summary.batches,
        "records": summary.records,
        "first_offset": summary.first_offset if summary.segments else None,
        "last_offset": inspection.end_offset - 1,
        "last_epoch": inspection.last_epoch,
        "acls": acls,
        "was_shut_down_cleanly": summary.was_shut_down_cleanly,
    }
    shutdown = "clean" if summary.was_shut_down_cleanly else "not clean"
    state = "in use" if is_used else f"shutdown {shutdown}"
    first = f"first offset {summary.first_offset}"
    if not summary.segments:  # as after a restore, before the first write
        first, state = "all is in the checkpoint", "in use" if is_used else "no record since"
    epoch = "unknown" if inspection.last_epoch is None else inspection.last_epoch
    report.say(
        f"segments {summary.segments}, checkpoints {summary.checkpoints}, "
        f"batches {summary.batches}, records {summary.records}",
        f"{first}, last offset {inspection.end_offset - 1}, "
        f"last epoch {epoch}, ACLs at the end {'unknown' if acls is None else acls}, {state}",
        count_of(faults, "fault") if faults else VALID,
    )


def _encodable(named: object) -> str:
    """Return a text for JSON, even if a damaged name is not valid text."""
    return str(named).encode(errors="backslashreplace").decode()


def _repair(log_dir: Path, storage: Storage, report: Report, now: datetime) -> None:
    try:
        plan = plan_repair(log_dir, storage)
    except UnrepairableLogError as error:
        report.document |= {"result": UNREPAIRABLE, "reason": _encodable(error)}
        report.say(f"{UNREPAIRABLE}: {error}")
        return
    if plan.steps:
        _announce(plan, report)
        name = f"{REPAIR_PREFIX}{now:%Y%m%dT%H%M%SZ}"
        with saying(lambda: f"{log_dir / name} has the original files: run the command again"):
            copies = repair(plan, log_dir, name, storage)
        report.document["repair"] = {
            "faults": [*map(_encodable, plan.faults)],
            "steps": [*map(_encodable, plan.steps)],
            "losses": [*map(_encodable, plan.losses.lines())],
            "originals": _encodable(copies),
        }
        report.say(
            f"repaired; {copies} contains the original files (move it elsewhere before a Kafka "
            "node starts here; otherwise the node treats it as a topic's directory)"
        )
    _inspect(log_dir, storage, report)


def _announce(plan: RepairPlan, report: Report) -> None:
    for fault in plan.faults:
        report.say(f"fault: {fault}")
    for step in plan.steps:
        report.say(f"step: {step}")
    for line in plan.losses.lines():
        report.say(line)
    report.say(
        f"the log will end at offset {plan.end_offset - 1}, with {len(plan.snapshot.acls)} ACLs"
    )
    # Show what will be lost before the repair begins.
    if report.out is not None:
        report.out.flush()
