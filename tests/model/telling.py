"""Tell a story in readable steps."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tests.model.story import (
    INSIDE,
    KAFKA,
    Ask,
    Call,
    Client,
    Create,
    Delete,
    Describe,
    Life,
    Reload,
    SetTimeout,
    Step,
    Story,
)


def text_of(story: Story) -> str:
    """Return the story as text, without default values."""
    lines = [line for number, life in enumerate(story.lives, 1) for line in _life(number, life)]
    return "\n".join([f"the source is {story.source}", *lines])


def _life(number: int, life: Life) -> Iterator[str]:
    usual = Life(
        seed=life.seed,
        clients=life.clients,
        events=life.events,
        worker_faults=life.worker_faults,
    )
    odd = [
        f", {name}={getattr(life, name)}"
        for name in Life.__dataclass_fields__
        if getattr(life, name) != getattr(usual, name)
    ]
    yield f"process {number}: seed={life.seed}" + "".join(odd)
    for event in life.events:
        acls = "".join(f" {_acl(acl)};" for acl in event.acls)
        yield f"  cluster: {event.delay_s:g} s later, {event.kind} {event.number}{acls}"
    for fault in life.worker_faults:
        seconds = f" for {fault.seconds:g} s" if fault.kind == "stop" else ""
        yield f"  workers: {fault.delay_s:g} s later, {fault.kind} {fault.number}{seconds}"
    for client in life.clients:
        yield f"  {_client(client)}:"
        for call in client.calls:
            yield f"    {_when(call)}{_step(call.step)}"


def _client(client: Client) -> str:
    place = "inside the process" if client.surface == INSIDE else f"over {client.surface}"
    if client.surface in (INSIDE, KAFKA):
        place = f"{client.principal}, {place}, at {client.endpoint}"
    if client.cut_after is not None:
        place += f", whose first connection is cut after {client.cut_after} bytes"
    return place


def _when(call: Call) -> str:
    begin = f"{call.delay_s:g} s later, " if call.delay_s else ""
    if call.patience_s is None:
        return begin
    return f"{begin}for at most {call.patience_s:g} s and {call.turns} turns, "


def _step(step: Step) -> str:
    match step:
        case Create(acls):
            return "create " + "; ".join(map(_acl, acls))
        case Delete(filters):
            return "delete " + "; ".join(map(_filter, filters))
        case SetTimeout(node, timeout_ms):
            change = (
                "reset the time-out" if timeout_ms is None else f"set the time-out {timeout_ms}"
            )
            return f"{change} of {f'node {node}' if node else 'every node'}"
        case Ask(questions, pause_s):
            pause = "" if pause_s is None else f"with pauses of {pause_s:g} s, "
            return f"{pause}ask " + "; ".join(map(_question, questions))
        case Describe(filter):
            return f"describe {_filter(filter)}"
        case Reload(super_users, allow_everyone):
            return f"reload with super.users={super_users}, allow.everyone={allow_everyone}"


def _acl(acl: Acl) -> str:
    pattern = f"{_name(PatternType, acl.pattern_type)} {_name(ResourceType, acl.resource_type)}"
    return (
        f"{_name(PermissionType, acl.permission_type)} {_name(Operation, acl.operation)}"
        f" on {pattern} {acl.resource_name!r} for {acl.principal} from {acl.host}"
    )


def _filter(filter: AclFilter) -> str:
    fields = {
        "permission": _name(PermissionType, filter.permission_type),
        "operation": _name(Operation, filter.operation),
        "type": _name(ResourceType, filter.resource_type),
        "pattern": _name(PatternType, filter.pattern_type),
        "name": filter.resource_name,
        "principal": filter.principal,
        "host": filter.host,
    }
    named = [f"{name}={value}" for name, value in fields.items() if value not in (None, "ANY")]
    return f"ACLs with {', '.join(named)}" if named else "all ACLs"


def _question(question: Question) -> str:
    return (
        f"{question.principal} {_name(Operation, question.operation)}"
        f" {_name(ResourceType, question.resource_type)} {question.resource_name!r}"
        f" from {question.host}"
    )


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in kind.__members__.values() else str(value)
