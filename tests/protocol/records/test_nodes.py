"""What registrations prove about a node's release."""

from __future__ import annotations

import pytest

from authorizerd.image.changes import UNKNOWN_LEVEL, NodeRegistered, NodeUnregistered
from authorizerd.protocol.records.metadata import encode_value
from authorizerd.protocol.records.nodes import UNKNOWN_ID, decode_node
from tests.support.foreign_records import broker, changed, node, quota, unregistered


@pytest.mark.parametrize("is_controller", [False, True])
def test_registration_has_the_highest_level(*, is_controller: bool) -> None:
    """Its bytes are kept for checkpoints."""
    value = node(3, 33, is_controller=is_controller)
    found = decode_node(value, 0, len(value))
    assert found == NodeRegistered(is_controller, 3, 33, value)
    assert encode_value(found) == value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(node(1, None), id="no metadata.version"),
        pytest.param(node(1, 30, version=5), id="later version"),
        pytest.param(broker(tags=b"\1\7\1\0"), id="unknown tag"),
        pytest.param(node(1, 30)[:-5], id="cut"),
    ],
)
def test_registration_that_says_no_level_is_one_of_an_unknown_level(value: bytes) -> None:
    assert decode_node(value, 0, len(value)) == NodeRegistered(False, 1, UNKNOWN_LEVEL, value)


def test_registration_without_an_id_is_one_of_an_unknown_node() -> None:
    value = b"\1\0\3"
    assert decode_node(value, 0, 3) == NodeRegistered(False, UNKNOWN_ID, UNKNOWN_LEVEL, value)


@pytest.mark.parametrize("is_controller", [False, True])
def test_removal_names_the_node(*, is_controller: bool) -> None:
    value = unregistered(3, is_controller=is_controller)
    assert decode_node(value, 0, len(value)) == NodeUnregistered(is_controller, 3)


@pytest.mark.parametrize("value", [changed(), quota("q", 1.0, user="a")])
def test_other_records_say_nothing(value: bytes) -> None:
    """A fenced broker counts, so records about fencing change nothing."""
    assert decode_node(value, 0, len(value)) is None
