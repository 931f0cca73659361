"""OpenFGA as a peer over HTTP: literal ACLs as relationship tuples, in its SQLite store.

OpenFGA's model has relations between users and named objects. It expresses an ACL that allows one
operation on one literal name, with Kafka's implied operations, ``ALL`` and ``User:*``. It has no
prefixes of names and no literal ``*``, so those ACLs are left out. Hosts and denials would be
possible with conditions and exclusions. They are left out too, since each check would cost more.

``make peers`` builds it. Without ``openfga`` there or on the path, the peer is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
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
from tools.bench.figures import Absent
from tools.bench.http_surface import Server, Surface, wait_until_healthy
from tools.bench.processes import (
    Command,
    ProcessError,
    capture_output,
    find_program,
    free_port,
    running,
)

NAME: Final = "OpenFGA"

_WRITTEN_AT_ONCE: Final = 100
_CHECKS_MAX: Final = 100
_REQUEST_SECONDS: Final = 30
_TIMEOUT_SECONDS: Final = 60.0
_USER: Final = "User:"
_IMPLYING: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_OPERATIONS: Final = tuple(
    operation for operation in Operation if operation not in (Operation.UNKNOWN, Operation.ANY)
)


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
    return {
        "schema_version": "1.1",
        "type_definitions": [{"type": "user"}, *map(_define_type, resource_types)],
    }


def _define_type(resource_type: ResourceType) -> dict[str, Any]:
    users = [{"type": "user"}, {"type": "user", "wildcard": {}}]
    relations: dict[str, Any] = {_granted(each): {"this": {}} for each in _OPERATIONS}
    for operation in _OPERATIONS:
        if operation == Operation.ALL:  # nobody asks for it
            continue
        allowing = (operation, *_IMPLYING.get(operation, ()), Operation.ALL)
        children = [{"computedUserset": {"relation": _granted(each)}} for each in allowing]
        relations[_permitted(operation)] = {"union": {"child": children}}
    return {
        "type": _type_name(resource_type),
        "relations": relations,
        "metadata": {
            "relations": {
                _granted(each): {"directly_related_user_types": users} for each in _OPERATIONS
            }
        },
    }


def make_tuple(acl: Acl) -> dict[str, str]:
    """Return the tuple of an ACL that is expressible."""
    return {
        "user": _user(acl.principal),
        "relation": _granted(Operation(acl.operation)),
        "object": _object(acl.resource_type, acl.resource_name),
    }


def _check_of(question: Question) -> dict[str, Any]:
    return {
        "user": _user(question.principal),
        "relation": _permitted(Operation(question.operation)),
        "object": _object(question.resource_type, question.resource_name),
    }


def _granted(operation: Operation) -> str:
    return operation.name.lower()


def _permitted(operation: Operation) -> str:
    return f"may_{operation.name.lower()}"


def _type_name(resource_type: ResourceType) -> str:
    return resource_type.name.lower()


def _user(principal: str) -> str:
    return f"user:{principal.removeprefix(_USER)}"


def _object(resource_type: int, name: str) -> str:
    return f"{_type_name(ResourceType(resource_type))}:{name}"


@contextmanager
def ready_openfga(directory: Path, acls: Iterable[Acl]) -> Iterator[Server | Absent]:
    """Run OpenFGA with the expressible ACLs until the block ends."""
    program = find_program("openfga")
    if program is None:
        yield Absent("no openfga")
        return
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("openfga.db*"):
        stale.unlink()
    store: Command = [
        "--datastore-engine",
        "sqlite",
        "--datastore-uri",
        f"file:{directory}/openfga.db",
    ]
    host = f"127.0.0.1:{free_port()}"
    command: Command = [
        program, "run", *store, "--http-addr", host, "--grpc-addr", f"127.0.0.1:{free_port()}",
        "--playground-enabled=false", "--metrics-enabled=false", "--log-level", "error",
        "--max-checks-per-batch-check", str(_CHECKS_MAX),
        # By default it gives up after 3 s, too soon for batches on several connections.
        "--request-timeout", f"{_REQUEST_SECONDS}s",
    ]  # fmt: skip
    try:
        capture_output([program, "migrate", *store], timeout_seconds=_TIMEOUT_SECONDS)
    except ProcessError as error:
        yield Absent(str(error))
        return
    with running(command, directory / "openfga.log") as process:
        try:
            wait_until_healthy(host, "/healthz", process)
            surface = _Loader(host).load([acl for acl in acls if is_expressible(acl)])
        except ProcessError as error:
            yield Absent(str(error))
            return
        yield Server(surface=surface, host=host, process_id=process.pid, is_peer=True)


class _Loader:
    """Writes a model and its tuples to a new store."""

    def __init__(self, host: str) -> None:
        self._connection = HTTPConnection(host, timeout=_TIMEOUT_SECONDS)

    def load(self, acls: Sequence[Acl]) -> Surface:
        """Return the API that asks about these ACLs.

        Raises:
            ProcessError: OpenFGA refused something.
        """
        types = sorted({ResourceType(acl.resource_type) for acl in acls})
        store = f"/stores/{self._post('/stores', {'name': 'kafka'})['id']}"
        made = self._post(f"{store}/authorization-models", make_model(types))
        model = made["authorization_model_id"]
        for start in range(0, len(acls), _WRITTEN_AT_ONCE):
            written = [make_tuple(acl) for acl in acls[start : start + _WRITTEN_AT_ONCE]]
            keys = {"tuple_keys": written}
            self._post(f"{store}/write", {"writes": keys, "authorization_model_id": model})
        self._connection.close()
        return make_surface(store, model)

    def _post(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", path, msgspec.json.encode(body), headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise ProcessError(f"openfga: {path}: {error!r}") from error
        if answer.status // 100 != 2:
            raise ProcessError(f"openfga: {path}: {answer.status} {text[:80]!r}")
        return msgspec.json.decode(text)


def make_surface(store: str, model: str) -> Surface:
    """Return the API for questions about one store, by one model."""

    def format_one(question: Question) -> dict[str, Any]:
        return {"tuple_key": _check_of(question), "authorization_model_id": model}

    def format_many(checks: Sequence[Any]) -> dict[str, Any]:
        numbered = [
            {"tuple_key": each["tuple_key"], "correlation_id": str(number)}
            for number, each in enumerate(checks)
        ]
        return {"checks": numbered, "authorization_model_id": model}

    return Surface(
        name=NAME,
        one_path=f"{store}/check",
        many_path=f"{store}/batch-check",
        one=format_one,
        many=format_many,
        is_allowed=lambda answer: answer.get("allowed") is True,
    )


def make_user_search(surface: Surface, question: Question) -> tuple[str, dict[str, Any]]:
    """Return path and body of ListUsers: who may do what the question asks?"""
    kind, _, name = _object(question.resource_type, question.resource_name).partition(":")
    check = _check_of(question)
    return _beside(surface, "list-users"), {
        "authorization_model_id": surface.one(question)["authorization_model_id"],
        "object": {"type": kind, "id": name},
        "relation": check["relation"],
        "user_filters": [{"type": "user"}],
    }


def make_object_search(surface: Surface, question: Question) -> tuple[str, dict[str, Any]]:
    """Return path and body of ListObjects: to which resources may the principal do this?"""
    check = _check_of(question)
    return _beside(surface, "list-objects"), {
        "authorization_model_id": surface.one(question)["authorization_model_id"],
        "type": _type_name(ResourceType(question.resource_type)),
        "relation": check["relation"],
        "user": check["user"],
    }


def _beside(surface: Surface, name: str) -> str:
    """Return the path of another request to the same store."""
    return f"{surface.one_path.rpartition('/')[0]}/{name}"
