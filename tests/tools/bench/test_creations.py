"""Creations are measured on a real daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.support.acl_messages import decode_create_acls, encode_create_acls
from tools.bench.closed_loop import LoadError
from tools.bench.creations import LOADS, QUICK, measure_creations
from tools.bench.figures import Peer
from tools.bench.kafka_load import VERSION, Creations


def answered(*results: ApiError | None) -> bytes:
    return b"".join(finish(encode_create_acls(VERSION, results)))


def test_every_request_creates_new_acls() -> None:
    creations = Creations("prefix", 3)
    created = [
        acl for _ in range(4) for acl in finish(decode_create_acls(VERSION, creations.body()))[0]
    ]
    assert len({acl.resource_name for acl in created}) == 12


def test_failed_creation_ends_the_load() -> None:
    creations = Creations("prefix", 2)
    refused = answered(None, ApiError(ErrorCode.SECURITY_DISABLED, "no"))
    with pytest.raises(LoadError, match="createAcls was answered"):
        creations.check(refused)
    creations.check(answered(None, None))
    with pytest.raises(LoadError, match="createAcls was answered"):
        creations.check(refused)


def test_quick_run_measures_every_load_on_a_daemon(tmp_path: Path) -> None:
    lines = list(measure_creations(tmp_path, QUICK))
    whats = [line.what for line in lines]
    assert len(set(whats)) == len(whats)
    for load in (load for loads in LOADS.values() for load in loads):
        assert any(what.startswith(f"createAcls, {load}, fdatasync (") for what in whats)
        assert any(f"during createAcls, {load}: p" in what for what in whats)
    assert any("describeAcls of 200 ACLs" in what for what in whats)
    assert all(line.ours > 0 for line in lines)
    peers = {line.peer for line in lines if line.peer is not None}
    assert peers == {Peer("Kafka 4.3.1", None, "not in a quick run")}
    assert not list(tmp_path.iterdir())
