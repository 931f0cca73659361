"""The ACLs at every offset of a controller's log, as kafka-dump-log prints it.

Nothing of authorizerd reads the log here: daemons that follow the cluster are compared with this.
"""

from __future__ import annotations

import json
import re
import shutil
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from authorizerd.acl.model import Acl, Question
from ops.kafka_rig.cluster import Cluster
from ops.kafka_rig.member import Member
from ops.kafka_rig.rig import Rig
from tests.oracles.scan import decide, meets

BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) .*? isvalid: (\w+)$")
RECORD = re.compile(r"^\| offset: (\d+) .* payload: (\{.*\})$")
FIELDS = {
    "resource_type": "resourceType",
    "resource_name": "resourceName",
    "pattern_type": "patternType",
    "principal": "principal",
    "host": "host",
    "operation": "operation",
    "permission_type": "permissionType",
}


@dataclass
class AclHistory:
    """A log's changes of ACLs by offset, and the last offset of each batch.

    ``added`` has the offset and the ACL of each id. ``removed`` has the offset by id.
    """

    batch_ends: set[int] = field(default_factory=set)
    added: dict[str, tuple[int, Acl]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    @property
    def last_offset(self) -> int:
        return max(self.batch_ends)

    def acls_at(self, offset: int) -> list[Acl]:
        """Return the ACLs of the state with this last offset; a binding may occur twice."""
        return [
            acl
            for acl_id, (added_at, acl) in self.added.items()
            if added_at <= offset < self.removed.get(acl_id, offset + 1)
        ]

    def find_doubles(self) -> list[Acl]:
        """Return the bindings that were added while they existed."""
        lives: dict[Acl, list[tuple[int, float]]] = {}
        for acl_id, (added_at, acl) in self.added.items():
            removed_at = self.removed.get(acl_id, float("inf"))
            lives.setdefault(acl, []).append((added_at, removed_at))
        return [
            acl
            for acl, spans in lives.items()
            for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False)
            if start < end
        ]

    def timelines(self, questions: Iterable[Question]) -> dict[Question, Timeline]:
        """Return the answer to each question at every offset, by a plain scan."""
        by_name: dict[str, list[str]] = {}
        for acl_id, (_, acl) in self.added.items():
            key = acl.resource_name if _is_plain(acl) else ""
            by_name.setdefault(key, []).append(acl_id)
        return {
            question: self._timeline(
                question, (*by_name.get("", ()), *by_name.get(question.resource_name, ()))
            )
            for question in questions
        }

    def _timeline(self, question: Question, acl_ids: Collection[str]) -> Timeline:
        matching = {
            acl_id: self.added[acl_id]
            for acl_id in acl_ids
            if meets(self.added[acl_id][1], question)
        }
        turns = {0}
        for acl_id, (added_at, _) in matching.items():
            turns |= {added_at, self.removed.get(acl_id, 0)}
        offsets = sorted(turns)
        answers = [
            decide(
                [
                    acl
                    for acl_id, (added_at, acl) in matching.items()
                    if added_at <= offset < self.removed.get(acl_id, offset + 1)
                ],
                False,
                question,
            )[0]
            for offset in offsets
        ]
        return Timeline(offsets, answers)


@dataclass(frozen=True)
class Timeline:
    """The answers to one question: each holds from its offset up to the next one."""

    offsets: list[int]
    answers: list[bool]

    def at(self, offset: int) -> bool:
        return self.answers[bisect_right(self.offsets, offset) - 1]


def _is_plain(acl: Acl) -> bool:
    """Return True if the pattern matches one name."""
    return acl.pattern_type == 3 and acl.resource_name != "*"


def read_history(cluster: Cluster, folder: Path) -> AclHistory:
    """Read the leader's log up to its high watermark.

    The watermark is asked for first: what a live leader writes meanwhile is left out.
    """
    quorum = cluster.quorum()
    copied = folder / "leader-log"
    shutil.rmtree(copied, ignore_errors=True)
    copied.mkdir()
    segments = sorted(cluster.members[quorum.leader_id].metadata_dir.glob("*.log"))
    assert int(segments[0].stem) == 0, "the log must begin at its first record"
    copies = [Path(shutil.copy(each, copied)) for each in segments]
    return read_segments(cluster.rig, copies, quorum.high_watermark)


def read_segments(rig: Rig, segments: Collection[Path], end_offset: int) -> AclHistory:
    """Read segments up to ``end_offset``, exclusive; every batch before it must be valid."""
    history = AclHistory()
    done = rig.dump_log(*segments)
    assert done.exit_code == 0, done.stderr
    for line in done.stdout.splitlines():
        if (batch := BATCH.match(line)) is not None:
            last_offset = int(batch[2])
            if last_offset >= end_offset:
                break
            assert batch[3] == "true", line
            history.batch_ends.add(last_offset)
        elif (record := RECORD.match(line)) is not None:
            _add_record(history, int(record[1]), json.loads(record[2]))
    assert history.last_offset == end_offset - 1, done.stdout[-2000:]
    return history


def read_checkpoint(rig: Rig, checkpoint: Path) -> list[Acl]:
    """Return the ACLs in a checkpoint."""
    return [acl for _, acl in _read_all(rig, checkpoint).added.values()]


def read_written(rig: Rig, member: Member) -> set[Acl]:
    """Return all ACLs in the log of a controller that has ended, committed or not."""
    written = _read_all(rig, *sorted(member.metadata_dir.glob("*.log")))
    return {acl for _, acl in written.added.values()}


def _read_all(rig: Rig, *files: Path) -> AclHistory:
    history = AclHistory()
    done = rig.dump_log(*files)
    assert done.exit_code == 0, done.stderr
    for line in done.stdout.splitlines():
        if (record := RECORD.match(line)) is not None:
            _add_record(history, int(record[1]), json.loads(record[2]))
    return history


def _add_record(history: AclHistory, offset: int, payload: Mapping[str, dict[str, int]]) -> None:
    data = payload["data"]
    match payload["type"]:
        case "ACCESS_CONTROL_ENTRY_RECORD":
            acl = Acl(**{ours: data[theirs] for ours, theirs in FIELDS.items()})
            history.added[str(data["id"])] = offset, acl
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD":
            history.removed[str(data["id"])] = offset
        case _:
            pass
