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
from tools.bench.http_surface import Server, Surface, wait_until_healthy
from tools.bench.processes import Command, ProcessError, find_program, free_port, running

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


SURFACE: Final = Surface(
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
        resource_type = ResourceType(acl.resource_type).name
        pattern_type = PatternType(acl.pattern_type).name
        place = indexed
        for key in (
            PermissionType(acl.permission_type).name,
            pattern_type,
            resource_type,
            acl.resource_name,
            acl.principal,
            Operation(acl.operation).name,
        ):
            place = place.setdefault(key, {})
        place[acl.host] = True
        if acl.pattern_type == PatternType.PREFIXED:
            # The policy tries only these lengths of a name instead of each of its prefixes.
            lengths.setdefault(resource_type, set()).add(len(acl.resource_name))
    return {
        "acls": indexed,
        "prefix_lengths": {name: sorted(found) for name, found in lengths.items()},
    }


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
    # Without --skip-version-check, OPA asks a server on the internet for its newest version.
    command: Command = [
        program, "run", "--server", "--addr", host, "--log-level", "error",
        "--skip-version-check", *_tls_options(certificate), data, _POLICY,
    ]  # fmt: skip
    ca_file = None if certificate is None else certificate.ca_file
    with running(command, directory / "opa.log") as process:
        try:
            wait_until_healthy(host, "/health", process, ca_file)
        except ProcessError as error:
            yield Absent(str(error))
            return
        yield Server(
            surface=SURFACE, host=host, process_id=process.pid, ca_file=ca_file, is_peer=True
        )


def _tls_options(certificate: Certificate | None) -> Command:
    if certificate is None:
        return ()
    return (
        *("--tls-cert-file", certificate.chain_file),
        *("--tls-private-key-file", certificate.key_file),
    )
