"""Read the newest commit of a table on this machine, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from authorizerd.replay.ingest.commit import (
    Commit,
    TableError,
    carry_forward,
    decode_commit,
    find_numbers,
    name_commit,
)


def read_newest(table: Path) -> Commit:
    """Return the newest commit of ``table``, or the content of a table of version 0.

    Raises:
        TableError: ``table`` is not a table, or its newest commit cannot be read.
    """
    numbers = list_commits(table)
    if numbers:
        path = table / "commits" / name_commit(numbers[0])
        try:
            return decode_commit(path.read_bytes())
        except (OSError, msgspec.DecodeError, TableError) as error:
            raise TableError(f"{path}: {error}") from error
    path = table / "ingest.json"
    try:
        return carry_forward(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TableError(
            f"{table}: expected the output of ingest: {path} does not exist"
        ) from error
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise TableError(f"{path}: {error}") from error
    except TableError as error:
        raise TableError(f"{table}: {error}") from error


def list_commits(table: Path) -> list[int]:
    """Return the numbers of the commits, newest first.

    Raises:
        TableError: the directory cannot be read.
    """
    try:
        return find_numbers(os.listdir(table / "commits"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise TableError(f"{table}/commits: {error.strerror}") from error
