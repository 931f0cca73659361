"""Of three logs, only what two of them have is committed."""

from pathlib import Path

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.chaos.origins import Majority
from tests.support.log_files import added, write_log


@pytest.mark.parametrize(
    ("logs", "last_offset"),
    [
        (([1], [1], [1]), 2),
        (([1, 2], [1], [1, 2]), 3),
        (([1, 2], [1], [1]), 2),
        (([1, 3], [1, 2, 4], [1, 2]), 3),
        (([1], [], []), 1),
        (([5, 6], [1], [2]), 1),
    ],
)
def test_majority_has_what_two_logs_have(
    tmp_path: Path, logs: tuple[list[int], ...], last_offset: int
) -> None:
    """Each log has one batch for each number."""
    for name, numbers in enumerate(logs):
        write_log(tmp_path / str(name), *([added(number)] for number in numbers))
    folders = [tmp_path / str(name) / METADATA_TOPIC_DIRECTORY for name in range(3)]
    batches, lost = Majority(folders).read()
    assert [each.last_offset for each in batches] == [*range(last_offset + 1)]
    assert not lost


def test_majority_notices_what_is_lost(tmp_path: Path) -> None:
    folders = [tmp_path / str(name) / METADATA_TOPIC_DIRECTORY for name in range(3)]
    for name in range(3):
        write_log(tmp_path / str(name), [added(1)], [added(2)])
    majority = Majority(folders)
    majority.read()
    for name in range(2):
        write_log(tmp_path / str(name), [added(1)], [added(3)])
    batches, lost = majority.read()
    assert [each.last_offset for each in lost] == [3]
    assert batches[-1].changes[0].acl_id == added(3).id.hex()
