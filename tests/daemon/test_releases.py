"""The log's messages about the Kafka releases by whose rules the daemon judges."""

import logging
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.daemon.releases import ACLS_NAMED_MAX, log_releases
from tests.support.acls import acl, snapshot_of

RANGES = 100 + ACLS_NAMED_MAX


@pytest.mark.parametrize("rules", [RULES_4_3, RULES_4_4])
async def test_acls_whose_host_may_become_a_range_are_counted(
    rules: ReleaseRules, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the first ones are named, and none under 4.4's rules."""
    held = [acl(host=f"10.{number}.0.0/16") for number in range(RANGES)]
    snapshot = Published[AclSnapshot | None](snapshot_of(*held, acl(host="10.0.0.1")))
    releases = Published(ReleaseInForce(rules, "a reason"))
    caplog.set_level(logging.INFO)
    async with trio.open_nursery() as logging_nursery:
        run = partial(log_releases, snapshot, releases, is_own_log=True)
        logging_nursery.start_soon(run)
        await wait_all_tasks_blocked()
        logging_nursery.cancel_scope.cancel()
    is_affected = rules == RULES_4_3
    named = [each for each in caplog.messages if "this ACL's host may be a range" in each]
    assert len(named) == (ACLS_NAMED_MAX if is_affected else 0)
    counted = f"{RANGES} ACLs have a host with a slash"
    assert any(each.startswith(counted) for each in caplog.messages) is is_affected
