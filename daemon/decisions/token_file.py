"""Read the tokens file. Reading blocks. Errors name the file and the line."""

from __future__ import annotations

import shlex
from typing import Final

from authorizerd.config.tokens import Tokens, parse_tokens
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.secret_file import Forbidden, read_secret_file

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
    # Others may read the file, because it contains only hashes.
    try:
        data = read_secret_file(
            path, key=KEY, bytes_max=FILE_BYTES_MAX, forbidden=Forbidden.WRITING
        )
    except StartError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise StartError(
            f"{error}: create it with a first token:"
            f" `authorizerd token --principal Type:name --append {shlex.quote(path)}`"
        ) from error.__cause__
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StartError(f"{KEY}: {path}:{line}: expected UTF-8 text") from None
