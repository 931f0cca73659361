from __future__ import annotations

import pytest

from config.kafka_keys import KAFKA_KEYS
from config.key import Key
from config.keys import KEYS, KEYS_BY_NAME
from config.own_keys import OWN_KEYS, OWN_PREFIX


def test_every_key_stands_in_the_table_once() -> None:
    """A second row of one name would never be read."""
    assert len(KEYS_BY_NAME) == len(KEYS)


def test_the_prefix_alone_tells_our_keys_from_kafka_s() -> None:
    """What has it is refused where it is unknown; what has it not is ignored."""
    assert all(key.name.startswith(OWN_PREFIX) for key in OWN_KEYS)
    assert not any(key.name.startswith(OWN_PREFIX) for key in KAFKA_KEYS)
    assert KEYS == KAFKA_KEYS + OWN_KEYS


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_key_says_what_it_means_and_takes_its_own_default(key: Key) -> None:
    """The reference shows defaults as a file would say them."""
    assert key.doc.endswith(".")
    if key.default is not None:
        key.parse(key.default)
        assert not key.required


def test_the_reloadable_keys_are_those_that_a_running_daemon_takes_over() -> None:
    """All others need a restart."""
    assert {key.name for key in KEYS if key.reloadable} == {
        "super.users",
        "allow.everyone.if.no.acl.found",
        "max.connections",
        "connections.max.idle.ms",
        "authorizerd.audit.filter.denied",
        "authorizerd.audit.level",
        "authorizerd.audit.principals.exclude",
        "authorizerd.audit.principals.include",
        "authorizerd.audit.required",
        "authorizerd.audit.resources.exclude",
        "authorizerd.audit.resources.include",
        "authorizerd.audit.sample.allowed",
        "authorizerd.http.drain.timeout.ms",
        "authorizerd.http.header.timeout.ms",
        "authorizerd.log.level",
        "authorizerd.update.timeout.ms",
    }
