"""The file names that may occur in a log directory: report unknown and wrong ones.

**Invariant:** a name that resembles a segment or checkpoint is a fault. A start does not read the
file, so the log would silently go back to the state before that file.

Source: Kafka 4.3 LogFileUtils, LogManager, KafkaRaftLog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, is_known_name, name_fault
from authorizerd.metadata.storage import Storage

REPAIR_PREFIX: Final = "repair-"

_OF_THE_DIRECTORY: Final = re.compile(
    r"meta\.properties(\.tmp|\.part|\.format(\.part)?)?|\.lock|\.kafka_cleanshutdown|bootstrap\.checkpoint"
    r"|__cluster_metadata-0|(cleaner-offset|log-start-offset|recovery-point-offset"
    r"|replication-offset)-checkpoint(\.tmp)?|repair-\d{8}T\d{6}Z"
    r"|[\w.-]+-\d+(\.[\w-]+-(delete|future|stray))?",  # a topic's partition
    re.ASCII,
)


def name_findings(log_dir: Path, storage: Storage) -> Iterator[tuple[Path, str, bool]]:
    """Yield each file with an unknown name, the text to report, and True if it is a fault."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for name in sorted(storage.names(directory)):
        fault = name_fault(name)
        if fault is not None:
            yield directory / name, fault, True
        elif not is_known_name(name):
            yield directory / name, "not known", False
    for name in sorted(storage.names(log_dir)):
        if not _OF_THE_DIRECTORY.fullmatch(name):
            yield log_dir / name, "not known", False
