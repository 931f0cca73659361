"""Repair a log: the smallest change after which a start and an inspection accept it again.

**Invariant:** the plan fixes the first fault, then the first remaining fault, and so on. Before the
first step, every file that any step changes has a durable copy. So an interrupted repair leaves a
state from which the next repair continues, and the copy always has the original. If some fault
cannot be fixed, nothing is changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    Checkpoint,
    LogFiles,
    Segment,
    find_files,
    segment_name,
)
from authorizerd.metadata.errors import LogDirectoryError, MetadataLogError, naming
from authorizerd.metadata.inspection.findings import Fault, FaultKind
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.inspection.repair_losses import (
    Losses,
    LostRegion,
    find_batch,
    find_losses,
)
from authorizerd.metadata.inspection.repair_steps import (
    Cut,
    Drop,
    MoveTail,
    PlannedStorage,
    SetEpoch,
    Step,
    copy,
    make,
)
from authorizerd.metadata.storage import Storage, find_unused

STEPS_MAX: Final = 1000


class UnrepairableLogError(MetadataLogError):
    """A repair cannot fix the fault. Restore the directory from a copy kept elsewhere."""

    def __init__(self, fault: Fault, reason: str) -> None:
        super().__init__(f"{fault}; {reason}; nothing was changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """The steps of a repair, and their reasons: ``faults``, in the order in which the steps fix
    them.

    ``files`` are the existing files that will change. ``snapshot`` and ``end_offset`` describe the
    repaired log.
    """

    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]
    files: tuple[Path, ...]
    snapshot: AclSnapshot
    end_offset: int
    losses: Losses


def plan_repair(log_dir: Path, storage: Storage) -> RepairPlan:
    """Return the steps that make the log valid; none if it already is. Change nothing.

    Raises:
        UnrepairableLogError: no steps can make it sound.
        LogDirectoryError: there is no log, or a file cannot be read.
    """
    with naming(log_dir):
        return _Planning(log_dir, storage).plan()


class _Planning:
    """The state of one planning: the steps so far, and the log as they leave it."""

    def __init__(self, log_dir: Path, storage: Storage) -> None:
        self._log_dir = log_dir
        self._storage = storage
        self._planned = PlannedStorage(storage)
        self._steps: list[Step] = []
        self._lost: dict[Path, tuple[int, bool]] = {}

    def plan(self) -> RepairPlan:
        faults: list[Fault] = []
        while True:
            inspection = Inspection(self._log_dir, self._planned)
            fault = _first_fault(inspection)
            if fault is None:
                break
            if len(self._steps) >= STEPS_MAX:
                reason = f"{STEPS_MAX} steps do not fix all faults"
                raise UnrepairableLogError(fault, reason)
            faults.append(fault)
            files = find_files(self._log_dir, self._planned)
            for step in _fix(fault, files, inspection.sound_checkpoints, self._planned):
                self._take(step)
        assert inspection.snapshot is not None, "the ACLs of a sound log are known"
        end = inspection.end_offset
        regions = [
            LostRegion(path, position, 0 if is_cut else end)
            for path, (position, is_cut) in self._lost.items()
        ]
        return RepairPlan(
            faults=tuple(faults),
            steps=tuple(self._steps),
            files=self._files(),
            snapshot=inspection.snapshot,
            end_offset=end,
            losses=find_losses(regions, inspection.snapshot, end, self._storage),
        )

    def _take(self, step: Step) -> None:
        lost_from = None
        match step:
            case Drop(_, is_covered=False):
                lost_from = 0
            case Cut(_, position):
                lost_from = position
        if lost_from is not None:
            path, start = self._planned.place(step.path, lost_from)
            before, _ = self._lost.get(path, (start, False))
            self._lost[path] = min(before, start), isinstance(step, Cut)
        self._planned.plan(step)
        self._steps.append(step)

    def _files(self) -> tuple[Path, ...]:
        """Return the existing files that a step changes."""
        paths = dict.fromkeys(step.path for step in self._steps)
        return tuple(path for path in paths if path.name in self._storage.names(path.parent))


def _first_fault(inspection: Inspection) -> Fault | None:
    """Return the first fault. Inspect everything, to know which checkpoints are sound."""
    first = None
    for finding in inspection.findings():
        if isinstance(finding, Fault) and first is None:
            first = finding
    return first


def _fix(
    fault: Fault, files: LogFiles, sound: Sequence[Checkpoint], storage: Storage
) -> list[Step]:
    """Return the steps that fix ``fault``, in an order that is safe if a crash interrupts them.

    Raises:
        UnrepairableLogError: no steps can fix it.
    """
    match fault.kind:
        case FaultKind.CHECKPOINT:
            return [Drop(fault.path, is_covered=True)]
        case FaultKind.EPOCH:
            return [SetEpoch(fault.path, fault.batch_position, fault.right_epoch)]
        case FaultKind.DAMAGE | FaultKind.GAP:
            covering = [each for each in sound if each.end_offset > fault.offset]
            if covering:
                return _continue_from(max(covering).end_offset, fault, files.segments, storage)
            return _end_before(fault, files, sound)
        case FaultKind.UNCOVERED:
            reason = "restore the earlier records from a copy of the directory"
        case FaultKind.AHEAD | FaultKind.DIRECTORY:
            reason = "correct it by hand"
        case _ as never:
            assert_never(never)
    raise UnrepairableLogError(fault, reason)


def _continue_from(
    offset: int, fault: Fault, segments: Sequence[Segment], storage: Storage
) -> list[Step]:
    """Return the steps that keep only the log from ``offset``, where a sound checkpoint ends.

    If ``offset`` is within the damaged segment, the rest of it becomes a segment of its own.
    """
    at = [segment.path for segment in segments].index(fault.path)
    first_left = at if fault.kind is FaultKind.GAP else at + 1
    before, after = segments[:first_left], segments[first_left:]
    if after and after[0].base_offset <= offset:
        return [Drop(segment.path, is_covered=True) for segment in reversed(before)]
    if fault.kind is FaultKind.DAMAGE:
        tail = find_batch(storage, fault.path, fault.batch_position, offset)
        if tail is not None:
            path = fault.path.with_name(segment_name(offset))
            drops = [Drop(segment.path, is_covered=True) for segment in reversed(before)]
            return [MoveTail(path, fault.path, tail), *drops]
    return [Drop(segment.path) for segment in reversed(segments)]


def _end_before(fault: Fault, files: LogFiles, sound: Sequence[Checkpoint]) -> list[Step]:
    """Return the steps that end the log before the fault.

    No checkpoint covers the log after it.
    """
    if fault.kind is FaultKind.DAMAGE and fault.batch_position:
        return [Cut(fault.path, fault.batch_position)]
    at = [segment.path for segment in files.segments].index(fault.path)
    if not at and not sound:
        raise UnrepairableLogError(fault, "no part of the log can be kept")
    # Remove the last one first, so that a crash in between leaves no gap among the segments.
    return [Drop(segment.path) for segment in reversed(files.segments[at:])]


def repair(
    plan: RepairPlan,
    log_dir: Path,
    copy_name: str,
    storage: Storage,
    *,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Path:
    """Make the plan's steps, after copies of the files are durable.

    Return the directory of the copies: ``copy_name``, with a number if that already exists.

    The caller must have held the directory's lock since before planning.

    Raises:
        LogDirectoryError: there is no space for the copies, or a file cannot be written. If some
            steps were made, the next repair continues after them.
    """
    copies = log_dir / copy_name
    try:
        copies = find_unused(copies, storage)
        needed = (
            sum(storage.size(path) for path in plan.files) * 2
        )  # the copies, and the rewritten files
        free = free_bytes(log_dir)
        if free < needed:
            # Check first: a repair that fails halfway for lack of space needs another repair.
            raise LogDirectoryError(
                f"{log_dir}: a repair needs {needed} free bytes, found {free}. Nothing was changed"
            )
        _copy_all(plan.files, copies, storage)
        for step in plan.steps:
            make(step, storage)
    except OSError as error:
        raise LogDirectoryError(f"{copies}: {error.strerror or error}") from error
    return copies


def _copy_all(files: Sequence[Path], copies: Path, storage: Storage) -> None:
    storage.make_directory(copies, copies.parent / METADATA_TOPIC_DIRECTORY)
    for path in files:
        copy(storage, path, copies / path.name, storage, like=path)
    storage.sync_directory(copies)
    storage.sync_directory(copies.parent)
