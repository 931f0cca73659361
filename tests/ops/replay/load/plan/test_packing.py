from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.frames import repeat_batches

MIB = 1024 * 1024


def batch_of(values: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"question": pa.array(values, pa.binary())})


@given(st.lists(st.lists(st.binary(max_size=4), max_size=3), max_size=4), st.integers(1, 4))
def test_every_round_yields_the_same_rows(parts: list[list[bytes]], rounds: int) -> None:
    repeated = repeat_batches(map(batch_of, parts), rounds)
    assert [(number, batch["question"].to_pylist()) for number, batch in repeated] == [
        (number, values) for number in range(rounds) for values in parts
    ]


def test_memory_does_not_grow_with_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    before = pa.total_allocated_bytes()
    allocated: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(64):
            batch = batch_of([bytes([number]) * MIB])
            allocated.append(pa.total_allocated_bytes() - before)
            yield batch

    rows = 0
    for _, batch in repeat_batches(batches(), 3):
        rows += len(batch)
        allocated.append(pa.total_allocated_bytes() - before)
    assert rows == 3 * 64
    assert MIB <= max(allocated) < 8 * MIB
    assert not list(tmp_path.iterdir())


def test_unusable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="missing"):
        list(repeat_batches([batch_of([b"a"])], 2))
