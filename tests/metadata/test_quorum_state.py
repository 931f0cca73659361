from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.quorum_state import NAME, check_sole_voter
from tests.support.log_files import write_file

OF_NODE_1 = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)


def check(log_dir: Path, text: str, node_id: int = 1) -> None:
    write_file(log_dir, NAME, text.encode())
    check_sole_voter(log_dir, node_id)


def test_sole_voter_may_write(tmp_path: Path, real_log_dir: Path) -> None:
    check(tmp_path, OF_NODE_1)
    check(tmp_path, OF_NODE_1.replace('"leaderId":1', '"leaderId":-1'))
    check_sole_voter(real_log_dir, 1)


def test_log_without_the_file_may_be_written(tmp_path: Path) -> None:
    check_sole_voter(tmp_path, 1)


@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ('{"voterId":1}', '{"voterId":1},{"voterId":3},{"voterId":2}', "2, 3"),
        ('{"voterId":1}', '{"voterId":2}', "2"),
        ('"leaderId":1', '"leaderId":2', "2"),
        ('"votedId":-1', '"votedId":3', "3"),
    ],
)
def test_log_with_other_voters_is_rejected(tmp_path: Path, was: str, now: str, named: str) -> None:
    """A new epoch would cut off what they committed."""
    with pytest.raises(LogDirectoryError) as refused:
        check(tmp_path, OF_NODE_1.replace(was, now))
    assert f"a quorum with node {named}." in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_log_of_another_sole_voter_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        LogDirectoryError, match=r"with node 1\. Only a log whose one voter is node"
    ):
        check(tmp_path, OF_NODE_1, node_id=2)


def test_log_with_dynamic_voters_is_rejected(tmp_path: Path) -> None:
    """A checkpoint written here would lose them (KIP-853)."""
    text = (
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
        '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    with pytest.raises(LogDirectoryError, match=r"data_version is 1: .*KIP-853"):
        check(tmp_path, text)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", OF_NODE_1.replace("[", "").replace("]", "")])
def test_invalid_file_is_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(LogDirectoryError, match=NAME):
        check(tmp_path, text)


def test_unreadable_file_is_rejected(tmp_path: Path) -> None:
    write_file(tmp_path, "segment").with_name(NAME).mkdir()
    with pytest.raises(LogDirectoryError, match="Is a directory"):
        check_sole_voter(tmp_path, 1)
