"""DescribeGroups, ListGroups, DescribeClientQuotas: none exist, which only the authorized learn."""

from types import SimpleNamespace

import pytest
import trio

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from authorizerd.acl.steps import ITEMS_PER_CHUNK
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, on_cluster
from tests.support.acls import acl

VERSIONS = APIS[ApiKey.DESCRIBE_GROUPS].versions
DEAD_VERSIONS = VERSIONS[:6]
WITH_OPERATIONS = VERSIONS[3:6]
EVERY_OPERATION = bit_field(SUPPORTED[ResourceType.GROUP])
DESCRIBE_G = acl(ALICE, "DESCRIBE", group="g")
ALL_GROUPS = acl(ALICE, "ALL", group="*")
DENY_READ = acl(ALICE, "READ", group="", pattern="PREFIXED", deny=True)


async def told(
    service: KafkaService,
    version: int,
    *names: str,
    principal: str = ALICE,
    wants_operations: bool = False,
) -> list[SimpleNamespace]:
    answer = await service.ask(
        ApiKey.DESCRIBE_GROUPS,
        version,
        principal=principal,
        groups=names,
        include_authorized_operations=wants_operations,
    )
    return list(answer.groups)


def operations_of(group: SimpleNamespace) -> int:
    operations: int = getattr(group, "authorized_operations", NOT_REQUESTED)
    return operations


@pytest.mark.parametrize("version", DEAD_VERSIONS)
async def test_describable_group_is_dead(start: Start, version: int) -> None:
    """Each has error 0 and no members. The request's order and repetitions are kept."""
    service = await start(acl(ALICE, "DESCRIBE", group="g"), acl(ALICE, "READ", group="h"))
    groups = await told(service, version, "h", "g", "h")
    assert [each.group_id for each in groups] == ["h", "g", "h"]
    for each in groups:
        assert (each.error_code, each.group_state) == (ErrorCode.NONE, "Dead")
        assert (each.protocol_type, each.protocol_data, each.members) == ("", "", ())
        assert operations_of(each) == NOT_REQUESTED


async def test_group_with_the_longest_name_is_answered(service: KafkaService) -> None:
    """An error that quotes the name is cut to the maximum length of a string."""
    name = "g" * 0x7FFF
    (group,) = await told(service, 6, name, principal=ROOT)
    assert (group.group_id, group.error_code) == (name, ErrorCode.GROUP_ID_NOT_FOUND)
    assert group.error_message == f"Group {name}"[:4096]


async def test_describable_group_is_not_found_from_version_6(start: Start) -> None:
    """The error is GROUP_ID_NOT_FOUND with Kafka's text. An error has no operations."""
    service = await start(DESCRIBE_G)
    (group,) = await told(service, 6, "g", wants_operations=True)
    assert (group.error_code, group.error_message, group.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
        "Dead",
    )
    assert operations_of(group) == NOT_REQUESTED


@pytest.mark.parametrize("version", VERSIONS)
async def test_group_without_describe_is_denied(start: Start, version: int) -> None:
    """It has GROUP_AUTHORIZATION_FAILED, no state, no operations. Other groups are answered."""
    service = await start(DESCRIBE_G)
    hidden, seen = await told(service, version, "hidden", "g", wants_operations=version >= 3)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (hidden.group_id, hidden.error_code, hidden.group_state) == ("hidden", code, "")
    assert operations_of(hidden) == NOT_REQUESTED
    assert seen.group_state == "Dead"


@pytest.mark.parametrize("version", WITH_OPERATIONS)
@pytest.mark.parametrize(
    ("rules", "operations"),
    [
        ([DESCRIBE_G], 1 << Operation.DESCRIBE),
        ([acl(ALICE, "READ", group="g")], 1 << Operation.READ | 1 << Operation.DESCRIBE),
        ([acl(ALICE, "DELETE", group="g")], 1 << Operation.DELETE | 1 << Operation.DESCRIBE),
        ([ALL_GROUPS], EVERY_OPERATION),
        ([ALL_GROUPS, DENY_READ], EVERY_OPERATION & ~(1 << Operation.READ)),
    ],
    ids=["describe", "read", "delete", "all", "all but one"],
)
async def test_group_operations_are_the_authorized_ones(
    start: Start, version: int, rules: list[Acl], operations: int
) -> None:
    """KIP-430: implied operations are included. INT32_MIN is sent if they were not requested."""
    service = await start(*rules)
    (group,) = await told(service, version, "g", wants_operations=True)
    assert operations_of(group) == operations
    (group,) = await told(service, version, "g")
    assert operations_of(group) == NOT_REQUESTED


async def test_only_describe_is_audited_when_operations_are_requested(start: Start) -> None:
    """Questions about operations are not access attempts, so they are audited at TRACE only."""
    service = await start(DESCRIBE_G)
    await told(service, 5, "g", "hidden", wants_operations=True)
    assert [
        (event.level, event.question.operation, event.question.resource_name, event.request_name)
        for event in service.events
    ] == [
        (AuditLevel.DEBUG, Operation.DESCRIBE, "g", "DescribeGroups"),
        (AuditLevel.INFO, Operation.DESCRIBE, "hidden", "DescribeGroups"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_are_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    groups = await told(unloaded, version, "g", "h", wants_operations=version >= 3)
    code = ErrorCode.AUTHORIZER_NOT_READY
    assert [(each.group_id, each.error_code, each.group_state) for each in groups] == [
        (name, code, "") for name in ("g", "h")
    ]
    assert {operations_of(each) for each in groups} == {NOT_REQUESTED}
    if version == 6:
        assert {each.error_message for each in groups} == {code.text}
    (served,) = await told(unloaded, version, "g", principal=ROOT)
    assert served.group_state == "Dead"


async def test_long_request_is_answered_from_one_state(start: Start) -> None:
    """An ACL created meanwhile does not change its answer."""
    service = await start(ALL_GROUPS)
    names = [f"g{number}" for number in range(150 * ITEMS_PER_CHUNK)]
    created = trio.Event()

    async def deny() -> None:
        while not service.events:
            await trio.lowlevel.checkpoint()
        assert await service.create([acl(ALICE, "DESCRIBE", group="*", deny=True)]) == [None]
        created.set()

    async with trio.open_nursery() as asking:
        asking.start_soon(deny)
        with trio.fail_after(30):
            groups = await told(service, 5, *names)
        assert created.is_set(), "an ACL was created meanwhile"
    assert [each.group_id for each in groups] == names
    assert {each.error_code for each in groups} == {ErrorCode.NONE}
    (denied,) = await told(service, 5, "g1")
    assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", APIS[ApiKey.LIST_GROUPS].versions)
@pytest.mark.parametrize("is_loaded", [True, False])
async def test_list_of_groups_is_empty(start: Start, version: int, is_loaded: bool) -> None:
    """Every caller gets an empty list without an error; before loading, AUTHORIZER_NOT_READY."""
    service = await start(is_loaded=is_loaded)
    for principal in (ALICE, ROOT):
        listed = await service.ask(
            ApiKey.LIST_GROUPS,
            version,
            principal=principal,
            states_filter=("Stable",),
            types_filter=("classic",),
        )
        is_served = is_loaded or principal == ROOT
        expected = ErrorCode.NONE if is_served else ErrorCode.AUTHORIZER_NOT_READY
        assert (listed.error_code, listed.groups) == (expected, ())


@pytest.mark.parametrize("rules", [[DESCRIBE_G], [on_cluster(Operation.DESCRIBE)]])
async def test_denied_list_of_groups_is_not_audited(start: Start, rules: list[Acl]) -> None:
    service = await start(*rules)
    await service.ask(ApiKey.LIST_GROUPS, 5, principal=ALICE, states_filter=(), types_filter=())
    is_allowed = rules == [on_cluster(Operation.DESCRIBE)]
    assert [(event.level, event.request_name) for event in service.events] == [
        (AuditLevel.DEBUG, "ListGroups")
    ] * is_allowed


Component = tuple[str, int, str | None]

EXACT, DEFAULT, SPECIFIED = range(3)
each_version = pytest.mark.parametrize("version", [0, 1])


async def describe(
    service: KafkaService, *components: Component, version: int = 1, principal: str = ROOT
) -> tuple[int, str | None, object]:
    answer = await service.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        version,
        principal=principal,
        components=[
            SimpleNamespace(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=False,
    )
    return answer.error_code, answer.error_message, answer.entries


@each_version
@pytest.mark.parametrize(
    "components",
    [
        [],
        [("user", EXACT, "alice")],
        [("user", DEFAULT, None), ("client-id", SPECIFIED, None)],
        [("ip", SPECIFIED, None)],
    ],
)
async def test_there_are_no_quotas(
    service: KafkaService, components: list[Component], version: int
) -> None:
    assert await describe(service, *components, version=version) == (0, "", ())


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "a")], "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", DEFAULT, None)],
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", EXACT, None)],
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "a")],
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("ip", SPECIFIED, "a")],
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("ip", 3, None)], "Unknown match type 3"),
        (
            [("ip", SPECIFIED, None), ("client-id", EXACT, "c")],
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        ),
    ],
)
async def test_invalid_filter_is_refused_with_kafkas_text(
    service: KafkaService, components: list[Component], error: str
) -> None:
    assert await describe(service, *components) == (ErrorCode.INVALID_REQUEST, error, None)


async def test_unknown_entity_type_is_refused(service: KafkaService) -> None:
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    text = "Unsupported entity type planet"
    assert await describe(service, ("planet", EXACT, "mars")) == (unsupported, text, None)
    code, text_of_long, _ = await describe(service, ("p" * 9000, EXACT, ""))
    assert (code, len(text_of_long or "")) == (unsupported, 4096)


@each_version
async def test_describing_requires_describe_configs(start: Start, version: int) -> None:
    """Without this right, an invalid filter is not reported."""
    service = await start(on_cluster(Operation.DESCRIBE))
    for components in ([], [("", EXACT, "a")]):
        answer = await describe(service, *components, version=version, principal=ALICE)
        assert answer == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, None)
    await service.create([on_cluster(Operation.DESCRIBE_CONFIGS)])
    assert await describe(service, version=version, principal=ALICE) == (0, "", ())


@each_version
async def test_request_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    error = ErrorCode.AUTHORIZER_NOT_READY
    answer = await describe(unloaded, version=version, principal=ALICE)
    assert answer == (error, error.text, None)
