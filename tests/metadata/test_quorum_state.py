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
    ("text", "reason"),
    [
        (OF_NODE_1.replace('{"voterId":1}', '{"voterId":1},{"voterId":3},{"voterId":2}'),
         r"a quorum with node 2, 3\. Only a log whose one voter is node 1 can be written"),
        (OF_NODE_1.replace('{"voterId":1}', '{"voterId":2}'), r"a quorum with node 2\."),
        (OF_NODE_1.replace('"leaderId":1', '"leaderId":2'), r"a quorum with node 2\."),
        (OF_NODE_1.replace('"votedId":-1', '"votedId":3'), r"a quorum with node 3\."),
        (OF_NODE_1.replace('"votedId":-1', f'"votedId":{"2" * 3000}'), "votedId: expected"),
        (OF_NODE_1.replace('{"voterId":1}', ",".join(f'{{"voterId":{n}}}' for n in range(99))),
         r"node 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, …\."),
        ('{"leaderId":1,"votedId":-1,"data_version":1}', r"data_version is 1: .*KIP-853"),
        ("", "invalid JSON: the body ends before the document does"),
        ("{", "invalid JSON: the body ends before the document does"),
        ("[]", "expected an object, found an array"),
        ("{}", "data_version is missing"),
        ('{"data_version":0,"currentVoters":{}}', "currentVoters: expected an array, found"),
        ('{"data_version":"0"}', "data_version: expected an integer, found a string"),
    ],
)  # fmt: skip
def test_other_file_is_rejected(tmp_path: Path, text: str, reason: str) -> None:
    """A new epoch would cut off what voters committed; a checkpoint would lose dynamic voters."""
    path = write_file(tmp_path, NAME, text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LogDirectoryError, match=reason) as refused:
        check_sole_voter(tmp_path, 1)
    assert str(refused.value).startswith(f"{path}: ")


def test_log_of_another_sole_voter_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match=r"with node 1\. Only .* whose one voter is node 2"):
        check(tmp_path, OF_NODE_1, node_id=2)


def test_unreadable_file_is_rejected(tmp_path: Path) -> None:
    write_file(tmp_path, "segment").with_name(NAME).mkdir()
    with pytest.raises(LogDirectoryError, match="Is a directory"):
        check_sole_voter(tmp_path, 1)
