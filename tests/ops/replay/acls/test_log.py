from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import astuple

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Acl
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.errors import LogDirectoryError, MetadataLogError, PastRangeError
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    encode_value,
)
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.acls.log import LogState, read_log
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    flipped,
    removed,
    write_checkpoint,
    write_segment,
)

STAMP_MS = 1_792_000_000_000
SECOND = 1_000


def stamped(base_offset: int, seconds: int, *records: MetadataRecord) -> bytes:
    values = [(None, encode_value(record)) for record in records]
    return encode_batch(base_offset, 0, STAMP_MS + seconds * SECOND, values)


def usual_log(log_dir: Path) -> Path:
    """Write offsets 0 to 6: ACLs 1 and 2 are added, then ACL 3, then ACL 1 is removed."""
    write_segment(
        log_dir, 0, stamped(0, 0, METADATA_VERSION), stamped(1, 10, added(1), added(2)),
        stamped(3, 20, METADATA_VERSION), stamped(4, 30, added(3)), stamped(5, 40, removed(1)),
        stamped(6, 50, METADATA_VERSION),
    )  # fmt: skip
    return log_dir


def at(seconds: float) -> AsOf:
    return AsOf(time_ms=STAMP_MS + int(seconds * SECOND))


def acls_of(state: LogState) -> set[Acl]:
    return {dated.acl for dated in state.acls}


def dates_of(state: LogState) -> dict[Acl, float | None]:
    """Return the seconds after the first batch at which each ACL was added."""
    return {
        dated.acl: None if dated.added_ms is None else (dated.added_ms - STAMP_MS) / SECOND
        for dated in state.acls
    }


def numbers(*wanted: int) -> set[Acl]:
    return {added(number).acl for number in wanted}


def retained_log(log_dir: Path) -> Path:
    """Write a log that begins at offset 3, with a checkpoint before it and a later one."""
    version = (METADATA_VERSION,)
    write_checkpoint(log_dir, 3, [*version, added(1), added(2)], epoch=0)
    write_segment(log_dir, 3, stamped(3, 30, added(3)), stamped(4, 40, added(4)))
    write_segment(log_dir, 5, stamped(5, 50, removed(1)), stamped(6, 60, added(5)))
    write_checkpoint(log_dir, 5, [*version, *(added(number) for number in (1, 2, 3, 4))], epoch=0)
    return log_dir


def log_of_transactions(log_dir: Path) -> Path:
    """Write a transaction that ends at 30 s, one that is aborted, and one that never ends."""
    write_segment(
        log_dir, 0, stamped(0, 0, METADATA_VERSION),
        stamped(1, 10, BeginTransaction(None), added(1)), stamped(3, 20, added(2)),
        stamped(4, 30, EndTransaction()),
        stamped(5, 40, BeginTransaction(None), added(3), AbortTransaction(None)),
        stamped(8, 50, BeginTransaction(None), added(4)),
    )  # fmt: skip
    return log_dir


def log_below_its_checkpoint(log_dir: Path) -> Path:
    write_checkpoint(usual_log(log_dir), 20, [METADATA_VERSION, added(9)], epoch=0)
    return log_dir


def damaged_log(log_dir: Path) -> Path:
    (segment,) = (usual_log(log_dir) / "__cluster_metadata-0").iterdir()
    segment.write_bytes(flipped(segment.read_bytes(), 100))
    return log_dir


def contradicting(second: MetadataRecord) -> Callable[[Path], Path]:
    def write_log(log_dir: Path) -> Path:
        batches = stamped(0, 0, METADATA_VERSION), stamped(1, 1, added(1), second)
        write_segment(log_dir, 0, *batches)
        return log_dir

    return write_log


@pytest.mark.parametrize(("write_log", "moment", "offset", "expected"), [
    (usual_log, at(29.999), 3, (1, 2)), (usual_log, at(30), 4, (1, 2, 3)),
    (usual_log, at(5000), 6, (2, 3)), (usual_log, AsOf(offset=1), 0, ()),
    # A newer checkpoint hides no batch that is retained.
    (retained_log, AsOf(offset=2), 2, (1, 2)), (retained_log, AsOf(offset=3), 3, (1, 2, 3)),
    (retained_log, at(45), 4, (1, 2, 3, 4)),
    (log_of_transactions, at(20), 3, ()), (log_of_transactions, AsOf(offset=3), 3, ()),
    (log_of_transactions, at(30), 4, (1, 2)),
    (log_below_its_checkpoint, AsOf(offset=4), 4, (1, 2, 3)),
])  # fmt: skip
def test_moment_selects_whole_batches_up_to_it(
    tmp_path: Path, write_log: Callable[[Path], Path], moment: AsOf, offset: int,
    expected: Sequence[int],
) -> None:  # fmt: skip
    state = read_log(write_log(tmp_path), moment)
    assert (state.offset, acls_of(state)) == (offset, numbers(*expected))


@pytest.mark.parametrize(("write_log", "dates"), [
    (usual_log, {2: 10, 3: 30}),
    (retained_log, {2: None, 3: 30, 4: 40, 5: 60}),
    (log_of_transactions, {1: 30, 2: 30}),
])  # fmt: skip
def test_acl_has_the_date_of_its_batch_or_of_the_end_of_its_transaction(
    tmp_path: Path, write_log: Callable[[Path], Path], dates: dict[int, float | None]
) -> None:
    state = read_log(write_log(tmp_path))
    assert dates_of(state) == {added(number).acl: date for number, date in dates.items()}
    assert list(state.acls) == sorted(state.acls, key=lambda dated: astuple(dated.acl))


def test_end_of_the_log_has_its_offset_and_time(tmp_path: Path) -> None:
    state = read_log(usual_log(tmp_path))
    assert (state.offset, state.stamped_ms) == (6, STAMP_MS + 50 * SECOND)


@pytest.mark.parametrize(("write_log", "moment", "error", "said"), [
    *((usual_log, AsOf(offset=offset), PastRangeError, "is in the future: the newest one is 6")
      for offset in (7, 2**62)),
    (usual_log, at(-0.001), PastRangeError, "reaches back to .*2026-10-14T17:46:40.000Z"),
    (retained_log, AsOf(offset=1), PastRangeError, "the log reaches back to offset 2"),
    (log_below_its_checkpoint, None, MetadataLogError, "before the end of the checkpoint, 20"),
    (damaged_log, None, MetadataLogError, r"0{20}\.log"),
    (lambda log_dir: log_dir, None, LogDirectoryError, "__cluster_metadata-0"),
    *((contradicting(second), None, ChangeError, None)
      for second in (added(1), removed(2), added(3, added(1).acl))),
])  # fmt: skip
def test_state_that_cannot_be_read_is_an_error(
    tmp_path: Path, write_log: Callable[[Path], Path], moment: AsOf | None,
    error: type[Exception], said: str | None,
) -> None:  # fmt: skip
    with pytest.raises(error, match=said):
        read_log(write_log(tmp_path), moment)


def test_damaged_old_checkpoint_costs_dates_but_no_acls(tmp_path: Path) -> None:
    whole = acls_of(read_log(retained_log(tmp_path)))
    oldest = min((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    oldest.write_bytes(flipped(oldest.read_bytes(), 90))
    state = read_log(tmp_path)
    assert acls_of(state) == whole
    dates = dates_of(state)
    assert (dates[added(3).acl], dates[added(5).acl]) == (None, 60)


def test_acls_of_a_checkpoint_have_no_dates(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 20, [METADATA_VERSION, added(9)], epoch=0)
    assert read_log(path) == read_log(tmp_path) == LogState((DatedAcl(added(9).acl),), 19, None)


def test_real_acls_are_visible_from_their_date(real_log_dir: Path) -> None:
    state = read_log(real_log_dir)
    dates = sorted({dated.added_ms or 0 for dated in state.acls})
    for date in dates[:: max(1, len(dates) // 8)]:
        before, after = (
            acls_of(read_log(real_log_dir, AsOf(time_ms=date - age))) for age in (1, 0)
        )
        new = {dated.acl for dated in state.acls if dated.added_ms == date}
        assert new <= after
        assert not new & before
