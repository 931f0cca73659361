"""Open Policy Agent as the peer over HTTP: the same ACLs as data, Kafka's rules as a policy.

``make peers`` builds it. Without ``opa`` there or on the path, the peer is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tools.bench.certificates import Certificate
from tools.bench.figures import Absent
from tools.bench.loads import Process
from tools.bench.servers import Api, Server, wait_until_healthy
from tools.processes import Command, find_program, free_port, running

NAME: Final = "OPA"

_POLICY: Final = Path(__file__).parent / "opa" / "policy.rego"


def _format(question: Question) -> dict[str, Any]:
    return {
        "input": {
            "principal": question.principal,
            "host": question.host,
            "operation": Operation(question.operation).name,
            "type": ResourceType(question.resource_type).name,
            "name": question.resource_name,
        }
    }


API: Final = Api(
    name=NAME,
    one_path="/v1/data/kafka/authz/allow",
    many_path="/v1/data/kafka/authz/allows",
    one=_format,
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
            # The policy tries only these lengths of a name instead of each of its prefixes.
            lengths.setdefault(kind, set()).add(len(acl.resource_name))
    sorted_lengths = {kind: sorted(each) for kind, each in lengths.items()}
    return {"acls": indexed, "prefix_lengths": sorted_lengths}


@contextmanager
def ready_opa(
    directory: Path, acls: Iterable[Acl], certificate: Certificate | None = None
) -> Iterator[Server | Absent]:
    """Run OPA with the ACLs until the block ends; with a certificate, it serves HTTPS."""
    program = find_program("opa")
    if program is None:
        yield Absent("no opa")
        return
    data = directory / "opa.json"
    data.write_bytes(msgspec.json.encode(make_policy_data(acls)))
    host = f"127.0.0.1:{free_port()}"
    ca_file, options = "", list[str | Path]()
    if certificate is not None:
        ca_file = str(certificate.ca_file)
        options += ["--tls-cert-file", certificate.chain_file]
        options += ["--tls-private-key-file", certificate.key_file]
    # Without --skip-version-check, OPA asks a server on the internet for its newest version.
    command: Command = [
        program, "run", "--server", "--addr", host, "--log-level", "error",
        "--skip-version-check", *options, data, _POLICY,
    ]  # fmt: skip
    with running(command, directory / "opa.log") as process:
        wait_until_healthy(host, "/health", process, ca_file)
        yield Server(api=API, host=host, process=Process(process.pid), ca_file=ca_file)
