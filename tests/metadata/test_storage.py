"""The real Storage. Nothing else in the package touches files."""

import ast
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from authorizerd import metadata
from authorizerd.metadata.storage import DISK, NO_EXCHANGE, SMALL_FILE_BYTES_MAX, read_small

MAY_TOUCH_FILES = {"storage.py", "lock.py"}
CALLS_OF_PATHS = {
    "chmod", "exists", "glob", "is_dir", "is_file", "iterdir", "lstat", "mkdir", "read_bytes",
    "read_text", "replace", "rglob", "rmdir", "samefile", "stat", "symlink_to", "touch", "unlink",
    "write_bytes", "write_text",
}  # fmt: skip
"""Methods of ``Path`` that read or change the disk. ``open`` and ``rename`` are not listed."""
OF_A_STORAGE = {"exists", "is_file"}


def path_calls(source: str) -> set[str]:
    """Return the methods called in ``source`` that Path has and Storage does not."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            is_storage = owner.endswith("storage") and node.func.attr in OF_A_STORAGE
            is_text = node.func.attr == "replace" and len(node.args) == 2
            if node.func.attr in CALLS_OF_PATHS and not is_storage and not is_text:
                found.add(f"{owner}.{node.func.attr}")
    return found


@pytest.mark.parametrize(
    "path", sorted(Path(metadata.__path__[0]).glob("*.py")), ids=lambda path: path.name
)
def test_only_a_storage_touches_files(path: Path) -> None:
    """An import contract bans ``os``. This test bans Path's own methods."""
    assert path_calls(path.read_text()) == set() or path.name in MAY_TOUCH_FILES


def test_path_call_is_found() -> None:
    assert path_calls("(log_dir / NAME).exists()") == {"log_dir / NAME.exists"}
    assert path_calls("storage.exists(path); text.replace('a', 'b')") == set()


def test_only_files_are_opened(tmp_path: Path) -> None:
    """Opening a FIFO would block, and reading a device might never end."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    for path in (fifo, link):
        with pytest.raises(OSError, match="not a regular file"):
            DISK.open(path)
    with pytest.raises(IsADirectoryError):
        DISK.open(tmp_path)


def test_only_small_files_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SMALL_FILE_BYTES_MAX)
    assert len(read_small(DISK, path)) == SMALL_FILE_BYTES_MAX
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="at most 65536 bytes"):
        read_small(DISK, path)


def test_dropping_the_cache_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    DISK.drop_cache(path)
    with DISK.open(path) as file:
        assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        DISK.drop_cache(tmp_path / "other")


def test_directory_is_not_a_file(tmp_path: Path) -> None:
    """Neither is a path that the user may not access."""
    directory = tmp_path / "directory"
    assert not DISK.exists(directory)
    DISK.make_directory(directory)
    assert DISK.exists(directory)
    assert not DISK.is_file(directory)
    (directory / "file").touch()
    assert DISK.is_file(directory / "file")
    assert not DISK.is_file(tmp_path / ("x" * 300))
    with pytest.raises(FileExistsError):
        DISK.make_directory(directory)


def test_sync_reaches_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This covers a file's data, a cut, and the names in a directory."""
    synced: list[str] = []

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "file"
    with closing(DISK.append_to(path)) as file:
        file.append([b"content"])
        assert synced == []
        file.sync()
    assert synced == [str(path)]
    DISK.truncate(path, 3)
    assert synced == [str(path)] * 2
    DISK.sync_directory(tmp_path)
    assert synced == [str(path), str(path), str(tmp_path)]


def test_exchange_swaps_two_directories_in_one_step(tmp_path: Path) -> None:
    """Also between directories. Nothing is overwritten."""
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    for path in (first, second):
        path.mkdir(parents=True)
        (path / path.name).touch()
    DISK.exchange(first, second)
    assert [each.name for each in first.iterdir()] == ["second"]
    assert [each.name for each in second.iterdir()] == ["first"]


def test_exchange_needs_both_names(tmp_path: Path) -> None:
    (tmp_path / "first").touch()
    with pytest.raises(FileNotFoundError):
        DISK.exchange(tmp_path / "first", tmp_path / "none")
    assert (tmp_path / "first").exists()


def no_memory(*_: object, **__: object) -> object:
    raise MemoryError


@pytest.mark.parametrize("library", [lambda *_, **__: object(), no_memory])
def test_disk_without_exchange_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Callable[..., object]
) -> None:
    """An old C library has no such call, and a hardened process cannot load it."""
    monkeypatch.setattr("ctypes.CDLL", library)
    with pytest.raises(OSError, match="Function not implemented") as raised:
        DISK.exchange(tmp_path, tmp_path)
    assert raised.value.errno in NO_EXCHANGE


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_what_is_made_like_another_has_its_access(tmp_path: Path, mode: int) -> None:
    """Also if the umask or the storage would allow less, or more."""
    (tmp_path / "file").touch()
    os.chmod(tmp_path / "file", mode)
    (tmp_path / "folder").mkdir()
    os.chmod(tmp_path / "folder", mode | 0o700)
    DISK.append_to(tmp_path / "like file", tmp_path / "file").close()
    DISK.make_directory(tmp_path / "like folder", tmp_path / "folder")
    DISK.append_to(tmp_path / "like nothing", tmp_path / "nothing").close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (modes["like file"], modes["like folder"]) == (mode, mode | 0o700)
    assert modes["like nothing"] & ~0o640 == 0


def test_another_users_file_is_replaced_by_one_without_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group of this process may have other members than that of the file."""
    like = tmp_path / "file"
    like.touch()
    like.chmod(0o664)
    access = os.stat_result((*like.stat()[:4], like.stat().st_uid + 1, *like.stat()[5:]))
    monkeypatch.setattr(Path, "stat", lambda _: access)
    monkeypatch.setattr(os, "fchown", refuse)
    DISK.append_to(tmp_path / "new", like).close()
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o600


def refuse(*_: object) -> None:
    raise PermissionError


def test_storage_does_not_load_ctypes() -> None:
    """Its import makes executable memory, which the daemon's service may not have."""
    code = "import sys, authorizerd.metadata.storage; sys.exit('ctypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
