import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Acl
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.errors import LogDirectoryError, MetadataLogError, PastRangeError
from authorizerd.metadata.log import MetadataLog
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
    read_acls,
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


def read(log_dir: Path, as_of: AsOf | None = None) -> LogState:
    return read_log(log_dir, as_of)


def acls_of(state: LogState) -> set[Acl]:
    return {dated.acl for dated in state.acls}


def numbers(*wanted: int) -> set[Acl]:
    return {added(number).acl for number in wanted}


TIMES = [
    (0, 0, ()), (9.999, 0, ()), (10, 2, (1, 2)), (29.999, 3, (1, 2)), (30, 4, (1, 2, 3)),
    (40, 5, (2, 3)), (50, 6, (2, 3)), (5000, 6, (2, 3)),
]  # fmt: skip
OFFSETS = [
    (0, 0, ()), (1, 0, ()), (2, 2, (1, 2)), (4, 4, (1, 2, 3)), (5, 5, (2, 3)), (6, 6, (2, 3)),
]  # fmt: skip
MOMENTS = [(at(seconds), *rest) for seconds, *rest in TIMES]
MOMENTS += [(AsOf(offset=offset), *rest) for offset, *rest in OFFSETS]


@pytest.mark.parametrize(("moment", "offset", "expected"), MOMENTS)
def test_moment_selects_whole_batches_up_to_it(
    tmp_path: Path, moment: AsOf, offset: int, expected: Sequence[int]
) -> None:
    state = read(usual_log(tmp_path), moment)
    assert (state.offset, acls_of(state)) == (offset, numbers(*expected))


def test_acl_has_the_date_of_its_batch(tmp_path: Path) -> None:
    state = read(usual_log(tmp_path))
    assert state.acls == (
        DatedAcl(added(2).acl, STAMP_MS + 10 * SECOND),
        DatedAcl(added(3).acl, STAMP_MS + 30 * SECOND),
    )
    assert (state.offset, state.stamped_ms) == (6, STAMP_MS + 50 * SECOND)


def test_transaction_becomes_visible_when_it_ends(tmp_path: Path) -> None:
    write_segment(
        tmp_path, 0, stamped(0, 0, METADATA_VERSION),
        stamped(1, 10, BeginTransaction(None), added(1)), stamped(3, 20, added(2)),
        stamped(4, 30, EndTransaction()),
        stamped(5, 40, BeginTransaction(None), added(3), AbortTransaction(None)),
        stamped(8, 50, BeginTransaction(None), added(4)),
    )  # fmt: skip
    assert not read(tmp_path, at(20)).acls
    assert not read(tmp_path, AsOf(offset=3)).acls
    ended = tuple(DatedAcl(added(n).acl, STAMP_MS + 30 * SECOND) for n in (1, 2))
    assert read(tmp_path, at(30)).acls == ended
    assert read(tmp_path).acls == ended


@pytest.mark.parametrize("as_of", [AsOf(offset=7), AsOf(offset=2**62)])
def test_offset_beyond_the_end_is_rejected(tmp_path: Path, as_of: AsOf) -> None:
    with pytest.raises(PastRangeError, match="is in the future: the newest one is 6"):
        read(usual_log(tmp_path), as_of)


def test_time_before_the_first_batch_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PastRangeError, match=r"reaches back to .*2026-10-14T17:46:40.000Z"):
        read(usual_log(tmp_path), at(-0.001))


def retained_log(log_dir: Path) -> Path:
    """Write a log that begins at offset 3, with a checkpoint before it and a later one."""
    version = (METADATA_VERSION,)
    write_checkpoint(log_dir, 3, [*version, added(1), added(2)], epoch=0)
    write_segment(log_dir, 3, stamped(3, 30, added(3)), stamped(4, 40, added(4)))
    write_segment(log_dir, 5, stamped(5, 50, removed(1)), stamped(6, 60, added(5)))
    write_checkpoint(log_dir, 5, [*version, *(added(number) for number in (1, 2, 3, 4))], epoch=0)
    return log_dir


def test_newer_checkpoint_hides_no_retained_batch(tmp_path: Path) -> None:
    retained_log(tmp_path)
    assert acls_of(read(tmp_path, AsOf(offset=3))) == numbers(1, 2, 3)
    assert acls_of(read(tmp_path, at(45))) == numbers(1, 2, 3, 4)
    dates = {dated.acl: dated.added_ms for dated in read(tmp_path).acls}
    assert dates == {
        added(2).acl: None,
        added(3).acl: STAMP_MS + 30 * SECOND,
        added(4).acl: STAMP_MS + 40 * SECOND,
        added(5).acl: STAMP_MS + 60 * SECOND,
    }


def test_first_checkpoint_is_the_earliest_offset(tmp_path: Path) -> None:
    retained_log(tmp_path)
    assert acls_of(read(tmp_path, AsOf(offset=2))) == numbers(1, 2)
    with pytest.raises(PastRangeError, match="the log reaches back to offset 2"):
        read(tmp_path, AsOf(offset=1))


def test_damaged_old_checkpoint_costs_dates_but_no_acls(tmp_path: Path) -> None:
    whole = acls_of(read(retained_log(tmp_path)))
    oldest = min((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    oldest.write_bytes(flipped(oldest.read_bytes(), 90))
    state = read(tmp_path)
    assert acls_of(state) == whole
    dates = {dated.acl: dated.added_ms for dated in state.acls}
    assert dates[added(3).acl] is None
    assert dates[added(5).acl] == STAMP_MS + 60 * SECOND


def test_log_that_ends_below_its_checkpoint_is_rejected(tmp_path: Path) -> None:
    usual_log(tmp_path)
    write_checkpoint(tmp_path, 20, [METADATA_VERSION, added(9)], epoch=0)
    with pytest.raises(MetadataLogError, match="before the end of the checkpoint, 20"):
        read(tmp_path)
    assert acls_of(read(tmp_path, AsOf(offset=4))) == numbers(1, 2, 3)


def test_acls_of_a_checkpoint_have_no_dates(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 20, [METADATA_VERSION, added(9)], epoch=0)
    assert read_log(path) == read(tmp_path) == LogState((DatedAcl(added(9).acl),), 19, None)


def test_damaged_log_is_an_error(tmp_path: Path) -> None:
    usual_log(tmp_path)
    (segment,) = (tmp_path / "__cluster_metadata-0").iterdir()
    segment.write_bytes(flipped(segment.read_bytes(), 100))
    with pytest.raises(MetadataLogError, match=segment.name):
        read(tmp_path)


def test_directory_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="__cluster_metadata-0"):
        read(tmp_path)


@pytest.mark.parametrize("second", [added(1), removed(2), added(3, added(1).acl)])
def test_contradicting_changes_are_rejected(tmp_path: Path, second: MetadataRecord) -> None:
    write_segment(tmp_path, 0, stamped(0, 0, METADATA_VERSION), stamped(1, 1, added(1), second))
    with pytest.raises(ChangeError):
        read(tmp_path)


@pytest.fixture(scope="module")
def real_batches(real_log_dir: Path) -> list[tuple[int, int, int]]:
    """Return the last offset, timestamp and end position of each batch of the real log."""
    (segment,) = (real_log_dir / "__cluster_metadata-0").glob("*.log")
    files = MetadataLog.open(real_log_dir)
    files._checkpoints = ()  # type: ignore[misc]
    return [
        (
            batch.last_offset,
            batch.placed.batch.max_timestamp_ms,
            batch.placed.position + len(batch.placed.batch.data),
        )
        for batch in files.batches()
        if batch.placed.path == segment
    ]


def test_moments_of_the_real_log_equal_truncated_logs(
    real_log_dir: Path, real_batches: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    (segment,) = (real_log_dir / "__cluster_metadata-0").glob("*.log")
    data = segment.read_bytes()
    seen = set()
    for offset, stamp, end in real_batches[::10]:
        shutil.rmtree(tmp_path / "__cluster_metadata-0", ignore_errors=True)
        write_segment(tmp_path, 0, data[:end])
        expected = set(read_acls(tmp_path).values())
        assert acls_of(read(real_log_dir, AsOf(offset=offset))) == expected
        last = max(each for each, stamped_ms, _ in real_batches if stamped_ms <= stamp)
        if last == offset:
            assert acls_of(read(real_log_dir, AsOf(time_ms=stamp))) == expected
        seen.add(len(expected))
    assert len(seen) > 5, "the log was empty, or never changed"


def test_real_acls_are_visible_from_their_date(real_log_dir: Path) -> None:
    state = read(real_log_dir)
    dates = sorted({dated.added_ms or 0 for dated in state.acls})
    for date in dates[:: max(1, len(dates) // 8)]:
        before, after = (acls_of(read(real_log_dir, AsOf(time_ms=date - age))) for age in (1, 0))
        new = {dated.acl for dated in state.acls if dated.added_ms == date}
        assert new <= after
        assert not new & before
