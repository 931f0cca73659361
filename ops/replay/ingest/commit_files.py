"""Read the newest commit of a table on this machine, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

from authorizerd.replay.ingest.commit import Commit, TableError, find_numbers, read_newest_commit


def read_newest(table: Path) -> Commit:
    """Return the newest commit of ``table``, or the content of a table of version 0.

    Raises:
        TableError: ``table`` is not a table, or its newest commit cannot be read.
    """
    return read_newest_commit(
        str(table), list_commits(table), lambda path: Path(path).read_text(encoding="utf-8")
    )


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
