"""ACLs managed with the usual admin clients: confluent-kafka and kafka-python."""

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.admin_client import (
    binding,
    create_acls,
    delete_acls,
    filter_of,
    new_admin,
)
from tests.support.daemon_process import DaemonProcess
from tests.support.requests import evaluation


@pytest.fixture
def admin(daemon: DaemonProcess) -> AdminClient:
    return new_admin(daemon)


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
