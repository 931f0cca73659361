"""The files of a log directory, by Kafka's naming rules.

**Invariant:** a name that resembles a segment or checkpoint is a fault. At a start, the daemon
would not read such a file, so the log would silently go back to an earlier state.

Source: KIP-630 (checkpoint names); Kafka 4.3 LogFileUtils, LogManager, KafkaRaftLog, Snapshots,
CleanShutdownFileHandler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.storage import DISK, Storage

METADATA_TOPIC_DIRECTORY: Final = "__cluster_metadata-0"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
"""The log directory contains this file from a clean shutdown until the next start."""

CORRUPT_SUFFIX: Final = ".corrupt"
"""Appended to the name of a damaged checkpoint, so that nothing reads it as a checkpoint."""

REPAIR_PREFIX: Final = "repair-"

RESTORE_PREFIX: Final = "restore-"
"""The beginning of the name of a directory in which a restore builds a log."""

REPLACED_PREFIX: Final = "replaced-"
"""The beginning of the name of a directory with a log that a restore has replaced."""

OFFSET_MAX: Final = 2**63 - 1

FORMAT_NEW_NODE: Final = "Run `authorizerd format` for a new node"
"""What to do if a daemon cannot start. A reader of logs must not format a directory."""

NAME_DIRECTORY: Final = "Name the log directory"
NAME_DIRECTORY_OR_CHECKPOINT: Final = (
    "Name the log directory or a .checkpoint file (for ACLs in other files, name each file)"
)

_KNOWN_IN_LOG: Final = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.(deleted|cleaned|swap|part))?"
    r"|\d{20}-\d{10}\.checkpoint(\.(deleted|part|corrupt))?"
    r"|leader-epoch-checkpoint(\.tmp)?|quorum-state(\.tmp)?|partition\.metadata(\.tmp)?",
    re.ASCII,
)
_KNOWN_IN_LOG_DIR: Final = re.compile(
    r"meta\.properties(\.tmp|\.part|\.format(\.part)?)?|\.lock|\.kafka_cleanshutdown|bootstrap\.checkpoint"
    r"|__cluster_metadata-0|(cleaner-offset|log-start-offset|recovery-point-offset"
    r"|replication-offset)-checkpoint(\.tmp)?|(repair|restore|replaced)-\d{8}T\d{6}Z(\.\d+)?"
    r"|copy\.properties(\.part)?|copy-set-aside"
    r"|[\w.-]+-\d+(\.[\w-]+-(delete|future|stray))?",  # a topic's partition
    re.ASCII,
)
# DOTALL, since the name of a file may contain line ends.
_RESEMBLES_LOG_FILE: Final = re.compile(r"\d{20}.*|.*\.log|.*\.checkpoint", re.DOTALL)
_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A file of the log that begins at ``base_offset``."""

    base_offset: int
    path: Path


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """The state of everything below ``end_offset`` (exclusive).

    Its last record has epoch ``epoch``.
    """

    end_offset: int
    epoch: int
    path: Path


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The segments and checkpoints of a log, each sorted by offset."""

    segments: tuple[Segment, ...]
    checkpoints: tuple[Checkpoint, ...]
    was_shut_down_cleanly: bool = False


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def checkpoint_name(end_offset: int, epoch: int) -> str:
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def parse_checkpoint_name(path: Path) -> Checkpoint:
    """Return the checkpoint that a file's name describes.

    Raises:
        LogDirectoryError: the name is not that of a checkpoint.
    """
    match = _CHECKPOINT_NAME.fullmatch(path.name)
    if match is None:
        raise LogDirectoryError(
            f"{path}: expected a log directory, or a checkpoint (20 digits of offset, '-', 10 of "
            "epoch, '.checkpoint')"
        )
    return Checkpoint(int(match[1]), int(match[2]), path)


def _is_known_name(name: str) -> bool:
    """Return True if Kafka or this daemon keeps files with that name next to a log's segments."""
    return _KNOWN_IN_LOG.fullmatch(name) is not None


def name_fault(name: str) -> str | None:
    """Return the fault of a name that resembles a segment or checkpoint, or None."""
    if name[:20].isdecimal() and int(name[:20]) > OFFSET_MAX:
        return "the name contains an impossible offset"
    if not _is_known_name(name) and _RESEMBLES_LOG_FILE.fullmatch(name):
        return "the name resembles a log file, but is not one: the file is not read"
    return None


def check_names(log_dir: Path, storage: Storage) -> None:
    """Reject a file whose name resembles a segment or checkpoint.

    Such a file would not be read, and without it the log might go back in time.

    Raises:
        LogDirectoryError: there is such a file.
        OSError: the directory cannot be read.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for name in storage.names(directory):
        fault = name_fault(name)
        if fault is not None:
            raise LogDirectoryError(f"{directory / name}: {fault}")


def inspect_names(log_dir: Path, storage: Storage) -> Iterator[tuple[Path, str, bool]]:
    """Yield each file with an unknown name, the text to report, and True if it is a fault."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for name in sorted(storage.names(directory)):
        fault = name_fault(name)
        if fault is not None:
            yield directory / name, fault, True
        elif not _is_known_name(name):
            yield directory / name, "not known", False
    for name in sorted(storage.names(log_dir)):
        if not _KNOWN_IN_LOG_DIR.fullmatch(name):
            yield log_dir / name, "not known", False


def find_other_names(log_dir: Path, storage: Storage) -> list[str]:
    """Return the names in a directory that do not belong to a log directory; ``lost+found`` is
    allowed.

    Raises:
        OSError: the directory cannot be read.
    """
    return [
        name
        for name in storage.names(log_dir)
        if name != "lost+found" and not _KNOWN_IN_LOG_DIR.fullmatch(name)
    ]


def describe_missing_log(log_dir: Path, remedy: str, storage: Storage = DISK) -> str:
    """Return the fault of a directory without a metadata log, and the remedy.

    Args:
        remedy: the text to use if nothing in the directory suggests a different one.

    Raises:
        OSError: the directory cannot be read.
    """
    if storage.exists(log_dir):
        for name in storage.names(log_dir):
            if name.startswith(RESTORE_PREFIX):
                return (
                    f"{log_dir}: no metadata log found: a restore was interrupted, which has left "
                    f"{name}. Run `authorizerd restore` again"
                )
    if log_dir.absolute().name == METADATA_TOPIC_DIRECTORY:
        # The path `.` has no name and is its own parent.
        parent = log_dir.parent if log_dir.name else log_dir.absolute().parent
        return f"{log_dir}: this is the log itself. Name the directory that contains it: {parent}"
    return (
        f"{log_dir}: no metadata log found (expected {METADATA_TOPIC_DIRECTORY} in it). {remedy}, "
        "or check that the volume is mounted"
    )


def find_files(log_dir: Path, storage: Storage = DISK, *, remedy: str = NAME_DIRECTORY) -> LogFiles:
    """Return the segments and checkpoints of the metadata log below ``log_dir``.

    Files being written or deleted, and all others, are skipped.

    Args:
        remedy: see ``describe_missing_log``.

    Raises:
        LogDirectoryError: there is no metadata log.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    try:
        paths = [directory / name for name in storage.names(directory)]
        was_shut_down_cleanly = CLEAN_SHUTDOWN_NAME in storage.names(log_dir)
    except FileNotFoundError as error:
        raise LogDirectoryError(describe_missing_log(log_dir, remedy, storage)) from error
    except NotADirectoryError as error:
        raise LogDirectoryError(f"{log_dir}: expected a log directory, found a file") from error
    except OSError as error:
        raise LogDirectoryError(f"{directory}: {error.strerror or error}") from error
    files = sort_files(paths, was_shut_down_cleanly=was_shut_down_cleanly)
    if not (files.segments or files.checkpoints):
        raise LogDirectoryError(
            f"{directory}: expected a log segment or a checkpoint, found neither"
        )
    return files


def sort_files(paths: Iterable[Path], *, was_shut_down_cleanly: bool = False) -> LogFiles:
    """Return the segments and checkpoints among ``paths``, in order."""
    segments, checkpoints = [], []
    for path in paths:
        if match := _SEGMENT_NAME.fullmatch(path.name):
            segments.append(Segment(int(match[1]), path))
        elif _CHECKPOINT_NAME.fullmatch(path.name):
            checkpoints.append(parse_checkpoint_name(path))
    return LogFiles(
        tuple(sorted(segments)),
        tuple(sorted(checkpoints)),
        was_shut_down_cleanly=was_shut_down_cleanly,
    )
