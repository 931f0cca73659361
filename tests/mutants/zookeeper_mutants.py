"""Mutants of ZooKeeper: each loses or overwrites an ACL, or gives away who may change them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ZNODE: Final = "tests/management/zookeeper/test_znode.py"
_WRITING: Final = "tests/cli/zookeeper/test_writing.py"
_NEW: Final = "tests/cli/zookeeper/test_new_znodes.py"
_SESSION: Final = "tests/cli/zookeeper/test_session.py"
_PLACES: Final = "tests/cli/zookeeper/test_places.py"

ZOOKEEPER_MUTANTS: Final = (
    Mutant(
        name="znodes with a later version of their JSON are read",
        file="management/zookeeper/znode.py",
        text="        if version != VERSION:\n",
        becomes="        if version < VERSION:\n",
        found_by=f"{_ZNODE}::test_znode_of_another_form_is_rejected_by_its_path",
    ),
    Mutant(
        name="an export forgets what another writer has added to a pattern",
        file="cli/zookeeper/writing.py",
        text="SetData(path, data, znode.version)",
        becomes="SetData(path, data, -1)",
        found_by=f"{_WRITING}::test_change_of_another_writer_is_never_overwritten",
    ),
    Mutant(
        name="an export goes on after a KRaft controller has taken over",
        file="cli/zookeeper/writing.py",
        text="self._session.commit((*guard, *changes))",
        becomes="self._session.commit(changes)",
        found_by=f"{_WRITING}::test_kraft_controller_that_takes_over_stops_the_export",
    ),
    Mutant(
        name="ALLOWs reach ZooKeeper before the DENYs that limit them",
        file="cli/zookeeper/writing.py",
        text="    yield from denials.items()\n    yield from grants.items()\n",
        becomes="    yield from grants.items()\n    yield from denials.items()\n",
        found_by=f"{_WRITING}::test_denials_are_written_before_the_first_grant",
    ),
    Mutant(
        name="running brokers do not notice an export",
        file="cli/zookeeper/writing.py",
        text="return (change, self._new_event(event))",
        becomes="return (change,)",
        found_by=f"{_WRITING}::test_acls_are_added_to_those_that_are_there",
    ),
    Mutant(
        name="everybody may change a new znode, although nobody has accepted that",
        file="cli/zookeeper/options.py",
        text="    if accepts_open:\n",
        becomes="    if accepts_open or not is_authenticated:\n",
        found_by=f"{_NEW}::test_open_znodes_are_made_only_if_the_user_accepts_them",
    ),
    Mutant(
        name="a new znode does not belong to the brokers",
        file="cli/zookeeper/options.py",
        text="    if parent and not is_open(parent):\n",
        becomes="    if not parent:\n",
        found_by=f"{_NEW}::test_new_znode_belongs_to_the_owner_of_its_parent",
    ),
    Mutant(
        name="passwords are in kazoo's log",
        file="cli/zookeeper/session.py",
        text='    logger = logging.Logger("kazoo", level=logging.CRITICAL + 1)\n'
        "    logger.disabled = True\n",
        becomes='    logger = logging.getLogger("kazoo")\n',
        found_by=f"{_SESSION}::test_no_password_is_logged",
    ),
    Mutant(
        name="a server of ZooKeeper claims an answer of 2 GiB, and gets the memory",
        file="cli/zookeeper/connections.py",
        text="    if size > RESPONSE_BYTES_MAX:\n",
        becomes="    if size < 0:\n",
        found_by=f"{_SESSION}::test_answer_that_claims_to_be_huge_ends_the_connection",
    ),
    Mutant(
        name="a DENY that ZooKeeper cannot hold is left out of an export",
        file="cli/zookeeper/places.py",
        text="        if denials:\n",
        becomes="        if len(denials) > len(found.acls):\n",
        found_by=f"{_PLACES}::test_lost_denial_is_never_accepted",
    ),
)
