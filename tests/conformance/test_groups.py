"""Kafka's StandardAuthorizer decides by the ACLs of expanded groups as a model with groups does."""

import random
from collections.abc import Collection

import pytest
from msgspec import structs

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.notes import is_note
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.cli.change.execution import Ending, Execution
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.management.groups.changes import GroupSet, make_governed_changes
from authorizerd.management.groups.expansion import expand
from authorizerd.management.groups.membership import Membership, find_group
from authorizerd.management.plan.selector import Managed, Selector
from tests.cli.change.acl_servers import new_plan, open_server, set_acls
from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.oracle import kafka_answers
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.group_worlds import (
    GROUPS,
    HOSTS,
    NAMES,
    QUESTIONS,
    USERS,
    World,
    allows_with_groups,
)

COUNT = 1_000


def log_in(broker: Broker) -> Credentials:
    return Credentials(
        mechanism=Mechanism.PLAIN, username=ADMIN, password=broker.settings.users[ADMIN]
    )


def random_world(source: random.Random) -> World:
    principals = (*USERS[:2], "User:*", *(f"Group:{group}" for group in GROUPS))

    def random_acl() -> Acl:
        return Acl(
            ResourceType.TOPIC, source.choice(NAMES),
            source.choice((PatternType.LITERAL, PatternType.PREFIXED)), source.choice(principals),
            source.choice(HOSTS), source.choice((Operation.ALL, Operation.READ)),
            source.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
        )  # fmt: skip

    acls = dict.fromkeys(random_acl() for _ in range(source.randint(0, 6)))
    members = {group: set(source.sample(USERS, source.randint(0, 3))) for group in GROUPS}
    return World([*acls], members)


def compile_world(world: World, present: Collection[Acl] = (), scope: str = "User:") -> list[Acl]:
    """Return the ACLs after a plan, with its notes."""
    membership = Membership({name: frozenset(users) for name, users in world.members.items()})
    hand = [each for each in world.acls if find_group(each.principal) is None]
    own = GroupSet("payments", expand(world.acls, membership))
    selector = Selector([Managed(principal_prefix=scope), Managed(principal="User:*")])
    changes = make_governed_changes(present, hand, selector, own).changes
    return [*({*present} - {*changes.deleted}), *changes.created]


def acl_row(acl: Acl) -> list[str]:
    named = name_acl(acl)
    return [
        named.resource_type, named.resource_name, named.pattern_type, named.principal, named.host,
        named.operation, named.permission_type,
    ]  # fmt: skip


def question_row(asked: Question) -> list[str | None]:
    operation, kind = Operation(asked.operation).name, ResourceType(asked.resource_type).name
    return [asked.principal, asked.host, operation, kind, asked.resource_name]


@pytest.mark.parametrize("release", ["rig", "newest_rig"])
def test_kafka_decides_as_a_model_with_groups(
    release: str, request: pytest.FixtureRequest, seed: int
) -> None:
    rig: Rig = request.getfixturevalue(release)
    source = random.Random(f"groups {seed}")
    worlds = [random_world(source) for _ in range(COUNT)]
    cases = [
        {
            "acls": [*map(acl_row, compile_world(world))],
            "requests": [*map(question_row, QUESTIONS)],
            "filters": [],
            "byResourceType": [],
            "allowEveryone": is_open,
        }
        for world in worlds
        for is_open in (False, True)
    ]
    judged = ((world, is_open) for world in worlds for is_open in (False, True))
    met = 0
    for (world, is_open), answer in zip(judged, kafka_answers(rig, cases), strict=True):
        expected = [allows_with_groups(world, each, is_open=is_open) for each in QUESTIONS]
        assert answer["decisions"] == ["DA"[allowed] for allowed in expected], world
        met += any(find_group(each.principal) for each in world.acls) and any(expected)
    assert met > COUNT / 4


async def test_broker_keeps_notes_and_what_groups_make(broker: Broker, seed: int) -> None:
    """Members come and go; an ACL made by hand stays."""
    source = random.Random(f"members {seed}")
    kept = acl("User:c", topic="by-hand")
    async with open_server(broker.sasl_plaintext, log_in(broker)) as server:
        await set_acls(server, [kept])
        for _ in range(12):
            present = [*(await server.list_acls()).acls.values()]
            grouped = [each for each in random_world(source).acls if find_group(each.principal)]
            world = World(grouped, random_world(source).members)
            wanted = compile_world(world, present, scope="User:nobody")
            execution = Execution(new_plan(present, wanted), server, report=lambda _: None)
            await execution.run()
            assert execution.progress.ending in (Ending.APPLIED, Ending.NOTHING_TO_DO)
            listed = set((await server.list_acls()).acls.values())
            given = {
                structs.replace(each, principal=member)
                for each in grouped
                for member in world.members[each.principal.partition(":")[2]]
            }
            assert {each for each in listed if not is_note(each)} == {kept, *given}
            assert any(map(is_note, listed)) == bool(given)
        await set_acls(server, [])
