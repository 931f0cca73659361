"""What registrations prove about a node's release."""

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
    ("value", "node_id"),
    [
        pytest.param(node(1, None), 1, id="no metadata.version"),
        pytest.param(node(1, 30, version=5), 1, id="later version"),
        pytest.param(broker(tags=b"\1\7\1\0"), 1, id="unknown tag"),
        pytest.param(node(1, 30)[:-5], 1, id="cut"),
        pytest.param(b"\1\0\3", UNKNOWN_ID, id="no id"),
    ],
)
def test_registration_that_says_no_level_is_one_of_an_unknown_level(
    value: bytes, node_id: int
) -> None:
    unknown = NodeRegistered(False, node_id, UNKNOWN_LEVEL, value)
    assert decode_node(value, 0, len(value)) == unknown


@pytest.mark.parametrize("is_controller", [False, True])
def test_removal_names_the_node(*, is_controller: bool) -> None:
    value = unregistered(3, is_controller=is_controller)
    assert decode_node(value, 0, len(value)) == NodeUnregistered(is_controller, 3)


@pytest.mark.parametrize("value", [changed(), quota("q", 1.0, user="a")])
def test_other_records_say_nothing(value: bytes) -> None:
    """A fenced broker counts, so records about fencing change nothing."""
    assert decode_node(value, 0, len(value)) is None
