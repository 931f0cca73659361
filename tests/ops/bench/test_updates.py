"""Updates are measured against a real daemon, each ACL of a load another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_requests import decode_create_acls
from authorizerd.protocol.kafka.acl_responses import encode_create_acls
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from ops.bench.figures import Peer
from ops.bench.kafka_load import VERSION, Creations, LoadError
from ops.bench.updates import LOADS, QUICK, measure_updates


def answered(*results: ApiError | None) -> bytes:
    return b"".join(finish(encode_create_acls(VERSION, results)))


def test_no_two_requests_of_a_load_create_the_same_acl() -> None:
    """An ACL that is there already costs a server nothing to create."""
    creations = Creations("prefix", 3)
    created = [
        acl for _ in range(4) for acl in finish(decode_create_acls(VERSION, creations.body()))
    ]
    assert len({acl.resource_name for acl in created}) == 12


def test_an_acl_that_was_not_created_ends_the_load() -> None:
    """A server that refuses quickly must not look quick, at its first answer or a later one."""
    creations = Creations("prefix", 2)
    refused = answered(None, ApiError(ErrorCode.SECURITY_DISABLED, "no"))
    with pytest.raises(LoadError, match="createAcls was answered"):
        creations.check(refused)
    creations.check(answered(None, None))
    with pytest.raises(LoadError, match="createAcls was answered"):
        creations.check(refused)


def test_a_quick_run_measures_every_load_on_a_daemon(tmp_path: Path) -> None:
    """Without Kafka its figures are absent, with the reason; nothing is left on the disk."""
    lines = list(measure_updates(tmp_path, QUICK))
    whats = [line.what for line in lines]
    assert len(set(whats)) == len(whats)
    for load in LOADS:
        assert any(what.startswith(f"createAcls, {load}, fdatasync (") for what in whats)
        assert any(what.endswith(f"during createAcls, {load}: p99") for what in whats)
    assert any("describeAcls of 200 ACLs" in what for what in whats)
    assert all(line.ours > 0 for line in lines)
    peers = {line.peer for line in lines if line.peer is not None}
    assert peers == {Peer("Kafka 4.3.1", None, "not in a quick run")}
    assert not list(tmp_path.iterdir())
