"""Read the tokens file. Reading blocks; errors name the file and the line."""

from __future__ import annotations

import os
import stat
from typing import Final

from authorizerd.config.tokens import Tokens, parse_tokens
from authorizerd.daemon.errors import StartError

KEY: Final = "authorizerd.tokens.file"
FILE_BYTES_MAX: Final = 8 * 1024 * 1024


def read_tokens(path: str) -> Tokens:
    """Return the tokens of the file at ``path``.

    Raises:
        ConfigurationError: a line is invalid.
        StartError: see ``read_tokens_text``.
    """
    return parse_tokens(read_tokens_text(path), source=path)


def read_tokens_text(path: str) -> str:
    """Return the text of the file at ``path``.

    Raises:
        StartError: the file cannot be read, is not UTF-8, or is writable by everyone.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StartError(f"{KEY}: {path}: not a file")
            if status.st_mode & stat.S_IWOTH:
                raise StartError(f"{KEY}: {path}: everybody may write to it (chmod o-w)")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise StartError(f"{KEY}: {path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise StartError(f"{KEY}: {path}: more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StartError(f"{KEY}: {path}:{line}: not UTF-8") from None


def _open_at_once(path: str, flags: int) -> int:
    """Open without blocking: opening a pipe would otherwise wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
