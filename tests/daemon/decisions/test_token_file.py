"""The tokens file on disk."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from authorizerd.config.errors import ConfigurationError
from authorizerd.daemon.decisions.token_file import FILE_BYTES_MAX, read_tokens
from authorizerd.daemon.errors import StartError

LINE = f"a {sha256(b'secret').hexdigest()} User:ä\n".encode()


def refusal(path: Path) -> str:
    with pytest.raises(StartError) as error:
        read_tokens(str(path))
    return str(error.value)


def test_a_file_that_others_can_read_is_accepted(tmp_path: Path) -> None:
    """It contains only hashes."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE)
    path.chmod(0o664)
    (tmp_path / "link").symlink_to(path)
    token = read_tokens(str(tmp_path / "link")).find(b"a.secret")
    assert token is not None
    assert token.principal == "User:ä"


def test_a_file_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    """Otherwise anyone could add a super user's token."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE)
    path.chmod(0o646)
    assert refusal(path) == (
        f"authorizerd.tokens.file: {path}: everybody may write to it (chmod o-w)"
    )


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    """Opening a pipe without a writer would block."""
    assert refusal(tmp_path / "none").endswith(
        ": No such file or directory: create it with a first token:"
        f" `authorizerd token --principal Type:name --append {tmp_path / 'none'}`"
    )
    assert refusal(tmp_path).endswith(": Is a directory")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").endswith(": not a file")


def test_an_unreadable_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """The file has a line that is not UTF-8, or is too long as a whole."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE * 2 + b"b\xff\n")
    assert refusal(path) == f"authorizerd.tokens.file: {path}:3: expected UTF-8 text"
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    reason = f"expected at most {FILE_BYTES_MAX} bytes"
    assert refusal(path) == f"authorizerd.tokens.file: {path}: {reason}"
    path.write_bytes(b"#" * FILE_BYTES_MAX)
    assert len(read_tokens(str(path))) == 0


def test_an_invalid_line_is_named_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(LINE * 2)
    with pytest.raises(ConfigurationError, match=f"{path}:2: the id a occurs in an earlier line"):
        read_tokens(str(path))
