"""The steps of a repair: the planned result equals the actual one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.metadata.inspection.repair_steps import (
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
    """Return every file that ``storage`` shows in ``directory``, read in parts."""
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
    """Return steps whose files all exist when they are reached."""
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
def test_planned_result_equals_the_actual_one(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both are equal byte by byte, for any steps. Planning changes nothing."""
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


def test_dropped_file_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / ONE).write_bytes(b"1")
    planned = PlannedStorage(DISK)
    planned.plan(Drop(tmp_path / ONE))
    assert planned.names(tmp_path) == []
    assert not planned.exists(tmp_path / ONE)
    assert not planned.is_file(tmp_path / ONE)


def test_position_is_located_in_the_existing_file(tmp_path: Path) -> None:
    (tmp_path / ONE).write_bytes(bytes(SIZE))
    planned = PlannedStorage(DISK)
    planned.plan(MoveTail(tmp_path / TWO, tmp_path / ONE, 10))
    planned.plan(MoveTail(tmp_path / NEW, tmp_path / TWO, 20))
    assert planned.place(tmp_path / NEW, 3) == (tmp_path / ONE, 33)
