"""The ACLs at every offset of a controller's log, as kafka-dump-log prints it.

Nothing of authorizerd reads the log here: daemons that follow the cluster are compared with this.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from authorizerd.acl.model import Acl
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.member import Member
from tests.kafka_rig.rig import Rig
from tests.oracles.acl_history import AclHistory

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


def read_history(cluster: Cluster, folder: Path) -> AclHistory:
    """Read the leader's log up to the high watermark that it has now."""
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
