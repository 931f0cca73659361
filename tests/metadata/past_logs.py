"""Random logs with transactions, segments, checkpoints and retention, and their states."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.directory import checkpoint_name
from authorizerd.protocol.records.batch import ControlType
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    checkpoint_batches,
    control_batch,
    data_batch,
    removed,
    write_file,
    write_segment,
)
from tests.support.strategies import logs

NO_OP = b"\1\x14\0"
BEGIN, END, ABORT = BeginTransaction("t"), EndTransaction(), AbortTransaction("no")

Records = list[MetadataRecord | bytes]


class LoggedBatch(NamedTuple):
    """A batch, and the state after it. ``is_open``: a transaction is not finished yet."""

    data: bytes
    base_offset: int
    last_offset: int
    time_ms: int
    is_open: bool
    acls: dict[bytes, Acl]
    changes: tuple[Change, ...]


class Kept(NamedTuple):
    """What retention left of a log: the first segment's batch, the cuts and the checkpoints.

    Each is the number of the batch that follows.
    """

    first: int
    cuts: frozenset[int]
    checkpoints: frozenset[int]


@st.composite
def logged_batches(draw: st.DrawFn) -> list[LoggedBatch]:
    """Return the batches of a valid log. The clock may be set back between any two of them."""
    written: list[tuple[Records, tuple[Change, ...], bool]] = [([METADATA_VERSION], (), False)]
    for batch in draw(logs(unknown_codes=True)):
        records: Records = [*batch.changes]
        changes = batch.changes
        match draw(st.sampled_from(["plain", "framed", "split", "after an abort"])):
            case "framed":
                written.append(([BEGIN, *records, END], changes, False))
            case "split":
                written.append(([BEGIN, *records[:1]], (), True))
                written.append(([NO_OP, *records[1:]], (), True))
                written.append(([END], changes, False))
            case "after an abort":
                aborted: Records = [BEGIN, added(2**64), removed(2**64 + 1), ABORT]
                written.append(([*aborted, *records], changes, False))
            case _:
                written.append(([NO_OP, *records], changes, False))
    batches = [
        LoggedBatch(control_batch(0, ControlType.LEADER_CHANGE), 0, 0, TIME_MS, False, {}, ())
    ]
    acls: dict[bytes, Acl] = {}
    time_ms = TIME_MS
    for records, changes, is_open in written:
        time_ms += draw(st.integers(-2, 9))
        base = batches[-1].last_offset + 1
        acls = apply(acls, changes)
        data = data_batch(base, records, time_ms=time_ms)
        last = base + len(records) - 1
        batches.append(LoggedBatch(data, base, last, time_ms, is_open, acls, changes))
    return batches


@st.composite
def kept(draw: st.DrawFn, batches: Sequence[LoggedBatch]) -> Kept:
    """Return how the batches are written. A log that does not begin at 0 has a checkpoint."""
    places = range(1, len(batches))
    cuts = draw(st.frozensets(st.sampled_from(places), max_size=3))
    closed = [place for place in (*places, len(batches)) if not batches[place - 1].is_open]
    checkpoints = draw(st.frozensets(st.sampled_from(closed), max_size=3))
    first = draw(st.sampled_from([0, *(cut for cut in cuts if cut <= max(checkpoints, default=0))]))
    return Kept(first, cuts, checkpoints)


def apply(acls: dict[bytes, Acl], changes: Sequence[Change]) -> dict[bytes, Acl]:
    after = dict(acls)
    for change in changes:
        if isinstance(change, AclAdded):
            after[change.id] = change.acl
        else:
            del after[change.id]
    return after


def write_past(log_dir: Path, batches: Sequence[LoggedBatch], how: Kept) -> None:
    """Write the log. Checkpoints alternate between Kafka's form and ours."""
    starts = sorted({how.first, *(cut for cut in how.cuts if cut > how.first)})
    for start, end in zip(starts, [*starts[1:], len(batches)], strict=True):
        write_segment(
            log_dir, batches[start].base_offset, *(each.data for each in batches[start:end])
        )
    for number, place in enumerate(sorted(how.checkpoints)):
        covered = batches[place - 1]
        end_offset = covered.last_offset + 1
        records: Records = [METADATA_VERSION]
        records += [AclAdded(acl_id, acl) for acl_id, acl in covered.acls.items()]
        stated = end_offset if number % 2 else None
        pieces = checkpoint_batches(records, end_offset=stated, time_ms=covered.time_ms)
        write_file(log_dir, checkpoint_name(end_offset, 1), *pieces)


def oldest_offset(batches: Sequence[LoggedBatch], how: Kept) -> int:
    if not how.first:
        return 0
    usable = (place for place in how.checkpoints if place >= how.first)
    return batches[min(usable) - 1].last_offset


def snapshot_at(batches: Sequence[LoggedBatch], offset: int) -> AclSnapshot:
    """Return the snapshot of a daemon that stopped at ``offset``."""
    last, acls = -1, {}
    for batch in batches:
        if batch.last_offset <= offset:
            last, acls = batch.last_offset, batch.acls
    return build((AclAdded(acl_id, acl) for acl_id, acl in acls.items()), last)
