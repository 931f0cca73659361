"""``authorizerd check-log``: validate a log directory, and repair it on request.

A check takes no lock, so it can read a log in use; a repair holds the lock throughout.

Exit codes: 0 the log is valid (or was repaired), 1 the check or repair failed or the arguments are
invalid, 2 the log still has faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from authorizerd.config.command_parser import CheckParser
from authorizerd.metadata.copy_directory import is_copy_empty, read_mark
from authorizerd.metadata.directory import REPAIR_PREFIX
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.findings import Fault
from authorizerd.metadata.inspection import Inspection
from authorizerd.metadata.lock import is_locked, locked
from authorizerd.metadata.repair import RepairPlan, UnrepairableLogError, plan_repair, repair
from authorizerd.metadata.storage import DISK, Storage

EXIT_NOT_CHECKED: Final = CheckParser.exit_code
EXIT_FAULTS: Final = 2

COPY_ADVICE: Final = (
    "the log is a copy: at its next start, the daemon cuts the end off or begins a new copy, and "
    "fetches what is missing"
)


def new_parser() -> CheckParser:
    """Return the parser of the words after ``check-log``."""
    parser = CheckParser(
        prog="authorizerd check-log", description="Validate every byte of a metadata log."
    )
    parser.add_argument(
        "directory", type=Path, help="the log directory, which contains __cluster_metadata-0"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="truncate the log before the first unreadable batch, after printing what will be lost "
        "and keeping a copy",
    )
    return parser


def run_check_log(
    words: Sequence[str], out: TextIO, storage: Storage = DISK, now: datetime | None = None
) -> int:
    """Run the command with the words that follow its name; return its exit code.

    Raises:
        MetadataLogError: the directory has no log or cannot be read, a repair finds it locked, or
            it is a copy, which is not repaired.
    """
    arguments = new_parser().parse_args(words)
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # a damaged name may not be valid text
    log_dir: Path = arguments.directory
    is_copy = read_mark(log_dir, storage) is not None
    if is_copy and arguments.repair:
        raise LogDirectoryError(
            f"{log_dir}: expected a log of its own, found a copy of a followed cluster, which is "
            "never repaired: stop the daemon, run `authorizerd reset-copy`, and start it again"
        )
    if is_copy and is_copy_empty(log_dir, storage):
        out.write(f"{log_dir}: an empty copy of a followed cluster\nvalid\n")
        return 0
    if not arguments.repair:
        is_used = is_locked(log_dir)
        if is_used:
            out.write(
                f"{log_dir}: in use by a daemon or a broker. The end of the log may look faulty "
                "while it is being written: if there is a fault, check again\n"
            )
        faults = _inspect(log_dir, storage, out, is_used=is_used)
        if faults and is_copy:
            out.write(f"{COPY_ADVICE}\n")
        return EXIT_FAULTS if faults else 0
    with locked(log_dir):
        return _repair(log_dir, storage, out, now or datetime.now(UTC))


def _inspect(log_dir: Path, storage: Storage, out: TextIO, *, is_used: bool = False) -> int:
    """Print the findings and a summary; return the number of faults."""
    inspection = Inspection(log_dir, storage)
    faults = 0
    for finding in inspection.findings():
        is_fault = isinstance(finding, Fault)
        faults += is_fault
        out.write(f"{'fault' if is_fault else 'note'}: {finding}\n")
    summary = inspection.summary
    acls = "unknown" if inspection.snapshot is None else len(inspection.snapshot.acls)
    epoch = "unknown" if inspection.last_epoch is None else inspection.last_epoch
    shutdown = "clean" if summary.was_shut_down_cleanly else "not clean"
    state = "in use" if is_used else f"shutdown {shutdown}"
    first = f"first offset {summary.first_offset}"
    if not summary.segments:  # as after a restore: nobody has written since
        first, state = "all is in the checkpoint", "in use" if is_used else "no record since"
    out.write(
        f"segments {summary.segments}, checkpoints {summary.checkpoints}, "
        f"batches {summary.batches}, records {summary.records}\n"
        f"{first}, last offset {inspection.end_offset - 1}, "
        f"last epoch {epoch}, ACLs at the end {acls}, {state}\n"
        f"{_counted(faults) if faults else 'valid'}\n"
    )
    return faults


def _counted(faults: int) -> str:
    return "1 fault" if faults == 1 else f"{faults} faults"


def _repair(log_dir: Path, storage: Storage, out: TextIO, now: datetime) -> int:
    try:
        plan = plan_repair(log_dir, storage)
    except UnrepairableLogError as error:
        out.write(f"cannot be repaired: {error}\n")
        return EXIT_FAULTS
    if plan.steps:
        _announce(plan, out)
        name = f"{REPAIR_PREFIX}{now:%Y%m%dT%H%M%SZ}"
        copies = repair(plan, log_dir, name, storage)
        out.write(
            f"repaired; {copies} contains the original files (move it elsewhere before a Kafka "
            "node starts here; otherwise the node treats it as a topic's directory)\n"
        )
    return EXIT_FAULTS if _inspect(log_dir, storage, out) else 0


def _announce(plan: RepairPlan, out: TextIO) -> None:
    for fault in plan.faults:
        out.write(f"fault: {fault}\n")
    for step in plan.steps:
        out.write(f"step: {step}\n")
    for line in plan.losses.lines():
        out.write(f"{line}\n")
    out.write(
        f"the log will end at offset {plan.end_offset - 1}, with {len(plan.snapshot.acls)} ACLs\n"
    )
    # What will be lost must be visible before the repair begins.
    out.flush()
