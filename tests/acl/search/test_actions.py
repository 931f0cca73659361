"""What may they do, compared with every decision."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.actions import ActionAccess, find_actions
from authorizerd.acl.search.hosts import EVERYWHERE, NOWHERE, HostAccess
from tests.acl.search.worlds import ASKING, FROM_HOSTS, TYPES, World, worlds
from tests.support.acls import acl, snapshot_of

TOPIC = ResourceType.TOPIC
NOBODY = AuthorizerSettings()


@given(worlds(), st.sampled_from([*ASKING, "User:root"]), st.sampled_from(TYPES))
def test_results_agree_with_every_decision(
    world: World, principal: str, resource_type: ResourceType
) -> None:
    """Each operation that the type supports is listed if and only if it is allowed somewhere."""
    operations = SUPPORTED.get(resource_type, ())
    for name in world.probes:
        found = find_actions(world.snapshot, world.settings, principal, resource_type, name)
        access = {each.operation: each.hosts for each in found}
        assert [*access] == [each for each in operations if each in access]
        assert not any(each.is_nowhere for each in access.values())
        for operation, host in product(operations, FROM_HOSTS):
            hosts = access.get(operation, NOWHERE)
            assert hosts.allows(host) == world.allows(
                principal, host, operation, resource_type, name
            ), (name, operation, host)


def test_implied_operations_are_listed() -> None:
    """READ implies DESCRIBE; a DENY of DESCRIBE takes away only that."""
    rules = [
        acl("User:a", "READ"),
        acl("User:a", "WRITE", host="10.0.0.1"),
        acl("User:a", "DESCRIBE", host="10.0.0.7", deny=True),
    ]
    assert find_actions(snapshot_of(*rules), NOBODY, "User:a", TOPIC, "t") == (
        ActionAccess(Operation.READ, EVERYWHERE),
        ActionAccess(Operation.WRITE, HostAccess(False, ("10.0.0.1",))),
        ActionAccess(Operation.DESCRIBE, HostAccess(True, ("10.0.0.7",))),
    )


def test_a_question_about_everyone_is_rejected() -> None:
    with pytest.raises(InvalidQuestionError, match=r"User:\*"):
        find_actions(snapshot_of(), NOBODY, "User:*", TOPIC, "t")
