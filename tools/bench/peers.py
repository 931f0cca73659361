"""The peers over HTTP. Without the program that ``make peers`` builds, a peer is absent.

**Open Policy Agent** has the same ACLs as data, and Kafka's rules as a policy.

**OpenFGA** has literal ACLs as relationship tuples in its SQLite store. Its model has relations
between users and named objects. It can express ACLs that allow one operation on one literal name,
with Kafka's implied operations, ``ALL`` and ``User:*``. It has no name prefixes and no literal
``*``, so those ACLs are left out. Hosts and denials would be possible with conditions and
exclusions, but are left out as well, since each check would cost more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tests.support.certificates import Authority
from tools.bench.figures import Absent
from tools.bench.loads import Process
from tools.bench.servers import Api, Server, ask_once, wait_until_healthy
from tools.bench.sets import HOST
from tools.processes import Command, capture_output, find_program, free_port, running

OPA, OPENFGA = "OPA", "OpenFGA"
_POLICY: Final = Path(__file__).parent / "opa" / "policy.rego"
_AT_ONCE: Final = 100
"""OpenFGA's maximum number of tuples per write, and of questions per batch."""
_USER: Final = "User:"
_IMPLYING: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_OPERATIONS: Final = tuple(
    each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY)
)


def _ask_opa(question: Question) -> dict[str, Any]:
    return {
        "input": {
            "principal": question.principal,
            "host": question.host,
            "operation": Operation(question.operation).name,
            "type": ResourceType(question.resource_type).name,
            "name": question.resource_name,
        }
    }


OPA_API: Final = Api(
    name=OPA,
    one_path="/v1/data/kafka/authz/allow",
    many_path="/v1/data/kafka/authz/allows",
    one=_ask_opa,
    many=lambda inputs: {"input": {"questions": [each["input"] for each in inputs]}},
    is_allowed=lambda answer: answer["result"] is True,
)


def make_policy_data(acls: Iterable[Acl]) -> dict[str, Any]:
    """Return the ACLs in the form that the policy reads."""
    indexed: dict[str, Any] = {}
    lengths: dict[str, set[int]] = {}
    for acl in acls:
        kind, place = ResourceType(acl.resource_type).name, indexed
        names = PermissionType(acl.permission_type).name, PatternType(acl.pattern_type).name
        operation = Operation(acl.operation).name
        for key in (*names, kind, acl.resource_name, acl.principal, operation):
            place = place.setdefault(key, {})
        place[acl.host] = True
        if acl.pattern_type == PatternType.PREFIXED:
            # The policy tries only prefixes of these lengths, not every prefix of a name.
            lengths.setdefault(kind, set()).add(len(acl.resource_name))
    sorted_lengths = {kind: sorted(each) for kind, each in lengths.items()}
    return {"acls": indexed, "prefix_lengths": sorted_lengths}


def is_expressible(acl: Acl) -> bool:
    """Return True if the model has a tuple for this ACL."""
    return (
        acl.pattern_type == PatternType.LITERAL
        and acl.permission_type == PermissionType.ALLOW
        and acl.host == WILDCARD
        and acl.resource_name != WILDCARD
        and acl.principal.startswith(_USER)
    )


def make_model(resource_types: Iterable[ResourceType]) -> dict[str, Any]:
    """Return the authorization model: a type for users, and one for each type of resource."""
    types = [{"type": "user"}, *map(_define_type, resource_types)]
    return {"schema_version": "1.1", "type_definitions": types}


def _define_type(resource_type: ResourceType) -> dict[str, Any]:
    users = {"directly_related_user_types": [{"type": "user"}, {"type": "user", "wildcard": {}}]}
    granted = [operation.name.lower() for operation in _OPERATIONS]
    relations: dict[str, Any] = {name: {"this": {}} for name in granted}
    for operation in _OPERATIONS:
        if operation != Operation.ALL:  # no question is about it
            allowing = (operation, *_IMPLYING.get(operation, ()), Operation.ALL)
            children = [{"computedUserset": {"relation": each.name.lower()}} for each in allowing]
            relations[f"may_{operation.name.lower()}"] = {"union": {"child": children}}
    metadata = {"relations": dict.fromkeys(granted, users)}
    return {"type": resource_type.name.lower(), "relations": relations, "metadata": metadata}


def make_tuple(acl: Acl) -> dict[str, str]:
    """Return the tuple for an expressible ACL."""
    relation = Operation(acl.operation).name.lower()
    return _relate(acl.principal, relation, acl.resource_type, acl.resource_name)


def _check_of(asked: Question) -> dict[str, str]:
    relation = f"may_{Operation(asked.operation).name.lower()}"
    return _relate(asked.principal, relation, asked.resource_type, asked.resource_name)


def _relate(principal: str, relation: str, resource_type: int, name: str) -> dict[str, str]:
    kind = ResourceType(resource_type).name.lower()
    user = f"user:{principal.removeprefix(_USER)}"
    return {"user": user, "relation": relation, "object": f"{kind}:{name}"}


@contextmanager
def ready_opa(
    directory: Path, acls: Iterable[Acl], authority: Authority | None = None
) -> Iterator[Server | Absent]:
    """Run OPA with the ACLs until the block ends; with an authority, it serves HTTPS."""
    program, ca_file, options = find_program("opa"), "", list[str | Path]()
    if program is None:
        yield Absent("no opa")
        return
    data = directory / "opa.json"
    data.write_bytes(msgspec.json.encode(make_policy_data(acls)))
    if authority is not None:
        # The file also contains the key: each option reads only its own part.
        keystore, ca_file = authority.issue("opa", HOST, "localhost"), str(authority.ca_file)
        options = ["--tls-cert-file", keystore, "--tls-private-key-file", keystore]
    host = f"{HOST}:{free_port()}"
    # Without --skip-version-check, OPA asks a server on the internet for its newest version.
    command: Command = [
        program, "run", "--server", "--addr", host, "--log-level", "error",
        "--skip-version-check", *options, data, _POLICY,
    ]  # fmt: skip
    with running(command, directory / "opa.log") as process:
        wait_until_healthy(host, "/health", process, ca_file)
        yield Server(api=OPA_API, host=host, process=Process(process.pid), ca_file=ca_file)


@contextmanager
def ready_openfga(directory: Path, acls: Iterable[Acl]) -> Iterator[Server | Absent]:
    """Run OpenFGA with the expressible ACLs until the block ends."""
    program = find_program("openfga")
    if program is None:
        yield Absent("no openfga")
        return
    directory.mkdir(parents=True, exist_ok=True)
    store: Command = [
        "--datastore-engine", "sqlite", "--datastore-uri", f"file:{directory}/openfga.db",
    ]  # fmt: skip
    host = f"{HOST}:{free_port()}"
    command: Command = [
        program, "run", *store, "--http-addr", host, "--grpc-addr", f"{HOST}:{free_port()}",
        "--playground-enabled=false", "--metrics-enabled=false", "--log-level", "error",
        "--max-checks-per-batch-check", str(_AT_ONCE),
        # By default it gives up after 3 s, too soon for batches on several connections.
        "--request-timeout", "30s",
    ]  # fmt: skip
    capture_output([program, "migrate", *store], timeout_seconds=60.0)
    with running(command, directory / "openfga.log") as process:
        wait_until_healthy(host, "/healthz", process)
        api = _load(host, [acl for acl in acls if is_expressible(acl)])
        yield Server(api=api, host=host, process=Process(process.pid))


def _load(host: str, acls: Sequence[Acl]) -> Api:
    """Write a model and its tuples to a new store; return the API that asks about these ACLs."""
    model = make_model(sorted({ResourceType(acl.resource_type) for acl in acls}))
    store = f"/stores/{ask_once(host, '/stores', {'name': 'kafka'})[1]['id']}"
    made = ask_once(host, f"{store}/authorization-models", model)[1]
    model_id = made["authorization_model_id"]
    for start in range(0, len(acls), _AT_ONCE):
        keys = {"tuple_keys": [*map(make_tuple, acls[start : start + _AT_ONCE])]}
        ask_once(host, f"{store}/write", {"writes": keys, "authorization_model_id": model_id})
    return make_api(store, model_id)


def make_api(store: str, model_id: str) -> Api:
    """Return the API for questions about one store and one model."""
    model = {"authorization_model_id": model_id}

    def format_many(checks: Sequence[Any]) -> dict[str, Any]:
        numbered = [
            {"tuple_key": each["tuple_key"], "correlation_id": str(number)}
            for number, each in enumerate(checks)
        ]
        return {"checks": numbered, **model}

    return Api(
        name=OPENFGA,
        one_path=f"{store}/check",
        many_path=f"{store}/batch-check",
        one=lambda question: {"tuple_key": _check_of(question), **model},
        many=format_many,
        is_allowed=lambda answer: answer.get("allowed") is True,
    )


def make_search(api: Api, question: Question, *, for_users: bool) -> tuple[str, dict[str, Any]]:
    """Return path and body of ListUsers (who may do this?) or ListObjects (to what?)."""
    check, model = _check_of(question), api.one(question)["authorization_model_id"]
    kind, _, name = check["object"].partition(":")
    body = {"authorization_model_id": model, "relation": check["relation"]}
    if for_users:
        body |= {"object": {"type": kind, "id": name}, "user_filters": [{"type": "user"}]}
    else:
        body |= {"type": kind, "user": check["user"]}
    path = api.one_path.rpartition("/")[0]
    return f"{path}/{'list-users' if for_users else 'list-objects'}", body
