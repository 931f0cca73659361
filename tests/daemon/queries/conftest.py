from pathlib import Path

import pytest
import trio

from tests.daemon.decisions.acl_place import DESCRIBE, DESCRIBE_ID, AclPlace


@pytest.fixture
async def place(nursery: trio.Nursery, tmp_path: Path) -> AclPlace:
    """Return a decision port that has loaded one ACL."""
    return await AclPlace(tmp_path).load(nursery, (DESCRIBE_ID, DESCRIBE))
