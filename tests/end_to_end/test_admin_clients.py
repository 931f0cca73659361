"""ACLs managed with the usual admin clients: confluent-kafka and kafka-python."""

import pytest
from confluent_kafka.admin import AdminClient, ResourcePatternType, ResourceType

from tests.support.admin_client import (
    binding,
    create_acls,
    delete_acls,
    describe_acls,
    filter_of,
    new_admin,
)
from tests.support.daemon_process import DaemonProcess
from tests.support.requests import evaluation


@pytest.fixture
def admin(daemon: DaemonProcess) -> AdminClient:
    return new_admin(daemon)


def test_confluents_client_creates_describes_and_deletes(admin: AdminClient) -> None:
    """One request has literal and prefixed, valid and invalid items, and a result for each."""
    literal = binding()
    prefixed = binding("ord", pattern_type=ResourcePatternType.PREFIXED)
    no_principal = binding(principal="alice")
    no_cluster = binding("other", resource_type=ResourceType.BROKER)
    assert create_acls(admin, literal, no_principal, prefixed, no_cluster) == [
        None,
        (
            42,
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
        None,
        (42, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ]
    assert describe_acls(admin) == {literal, prefixed}
    assert create_acls(admin, literal) == [None]
    assert describe_acls(admin) == {literal, prefixed}
    matched = filter_of("orders", ResourcePatternType.MATCH)
    assert describe_acls(admin, matched) == {literal, prefixed}
    assert set(delete_acls(admin, matched)) == {literal, prefixed}
    assert describe_acls(admin) == set()


def test_acknowledged_change_is_used_at_once(daemon: DaemonProcess, admin: AdminClient) -> None:
    for _ in range(20):
        assert daemon.evaluate(evaluation()).json["decision"] is False
        assert create_acls(admin, binding()) == [None]
        assert daemon.evaluate(evaluation()).json["decision"] is True
        assert len(delete_acls(admin, filter_of("orders"))) == 1
    assert daemon.metric("authorizerd_acls") == 0
    written = daemon.metric("authorizerd_snapshot_offset")
    assert daemon.metric("authorizerd_high_watermark") == written
    assert daemon.metric('authorizerd_purgatory_size{operation="acl-update"}') == 0
    assert daemon.metric('authorizerd_request_remote_seconds_count{request="CreateAcls"}') == 20


ORDERS_ID, SECRETS_ID = b"orders".rjust(16, b"-"), b"secrets".rjust(16, b"-")
