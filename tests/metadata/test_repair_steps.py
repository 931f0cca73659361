"""The steps of a repair: what is planned is what is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.metadata.repair_steps import (
    Cut,
    Drop,
    MoveTail,
    PlannedStorage,
    SetEpoch,
    Step,
    make,
)
from authorizerd.metadata.storage import DISK, Storage

ONE, TWO, NEW = "1.log", "2.log", "3.log"
SIZE = 60


def contents(directory: Path, storage: Storage) -> dict[str, bytes]:
    """Return every file that ``storage`` shows in ``directory``, read piece by piece."""
    found = {}
    for name in storage.names(directory):
        path = directory / name
        assert storage.exists(path)
        assert storage.is_file(path)
        with storage.open(path) as file:
            data = b""
            for start in range(0, storage.size(path), 7):
                file.seek(start)
                assert file.tell() == start
                data += file.read(min(7, storage.size(path) - start))
            found[name] = data
    return found


@st.composite
def plans(draw: st.DrawFn, directory: Path = Path("/log")) -> list[Step]:
    """Return steps each of which is of files that are there by then."""
    sizes = {ONE: SIZE, TWO: SIZE}
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(sorted(sizes)))
        path, size = directory / name, sizes[name]
        position = draw(st.integers(0, size))
        match draw(st.integers(0, 3)):
            case 0 if len(sizes) > 1:
                steps.append(Drop(path))
                del sizes[name]
            case 1 if size >= 16:
                steps.append(SetEpoch(path, min(position, size - 16), draw(st.integers(0, 9))))
            case 2 if NEW not in sizes:
                steps.append(MoveTail(directory / NEW, path, position))
                sizes[NEW] = size - position
            case _:
                steps.append(Cut(path, position))
                sizes[name] = position
    return steps


def placed(step: Step, directory: Path) -> Step:
    match step:
        case Drop(path):
            return Drop(directory / path.name)
        case Cut(path, position):
            return Cut(directory / path.name, position)
        case SetEpoch(path, position, epoch):
            return SetEpoch(directory / path.name, position, epoch)
        case MoveTail(path, source, position):
            return MoveTail(directory / path.name, directory / source.name, position)


@given(steps=plans())
def test_what_is_planned_is_what_is_made(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Byte by byte, for any steps in any order; planning itself changes nothing."""
    directory = tmp_path_factory.mktemp("log")
    for name in (ONE, TWO):
        (directory / name).write_bytes(bytes(range(SIZE)))
    before = contents(directory, DISK)
    planned = PlannedStorage(DISK)
    for step in steps:
        planned.plan(placed(step, directory))
    shown = contents(directory, planned)
    assert contents(directory, DISK) == before
    for step in steps:
        make(placed(step, directory), DISK)
    assert contents(directory, DISK) == shown


def test_what_is_dropped_is_not_there(tmp_path: Path) -> None:
    """Under no question that is asked of it."""
    (tmp_path / ONE).write_bytes(b"1")
    planned = PlannedStorage(DISK)
    planned.plan(Drop(tmp_path / ONE))
    assert planned.names(tmp_path) == []
    assert not planned.exists(tmp_path / ONE)
    assert not planned.is_file(tmp_path / ONE)


def test_a_place_is_told_in_the_file_that_is_there(tmp_path: Path) -> None:
    """Through any number of pieces of pieces."""
    (tmp_path / ONE).write_bytes(bytes(SIZE))
    planned = PlannedStorage(DISK)
    planned.plan(MoveTail(tmp_path / TWO, tmp_path / ONE, 10))
    planned.plan(MoveTail(tmp_path / NEW, tmp_path / TWO, 20))
    assert planned.place(tmp_path / NEW, 3) == (tmp_path / ONE, 33)
