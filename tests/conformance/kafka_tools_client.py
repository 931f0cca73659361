"""kafka-acls and kafka-configs as clients of the matrix; each call starts the tool again."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.client_matrix import calls
from tests.conformance.java_client import JavaPeer, java_settings
from tests.kafka_rig.properties import write_properties
from tests.kafka_rig.rig import Program

_REFUSED: Final = "ClusterAuthorizationException"
_HEAD: Final = re.compile(
    r"Current ACLs for resource `ResourcePattern\(resourceType=(\w+), name=(.*), "
    r"patternType=(\w+)\)`:"
)
_ENTRY: Final = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")
_CONFIG: Final = re.compile(
    r"  (?P<name>\S+?)=(?P<value>.*) sensitive=(true|false) synonyms=\{(?P<synonyms>.*)\}"
)


class _Tool(calls.AdminClient):
    program: ClassVar[Program]

    def __init__(
        self, peer: JavaPeer, address: str, login: calls.Login | None, tls: calls.Tls | None
    ) -> None:
        self._peer = peer
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "client.properties"
        write_properties(path, java_settings(login, tls))
        self._connection = ("--bootstrap-server", address, "--command-config", str(path))

    def close(self) -> None:
        self._folder.cleanup()

    def _run(self, *arguments: str) -> str:
        """Return the output of the tool."""
        tool = self.program.main_class
        done = self._peer.ask(tool=tool, arguments=[*self._connection, *arguments])
        printed: str = done["printed"]
        if _REFUSED in printed:
            raise calls.RefusedError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert done["code"] == 0, printed
        return printed


class KafkaAclsTool(_Tool):
    """kafka-acls."""

    program = Program.ACLS
    offers_no_more: ClassVar[str] = "kafka-acls is only for ACLs"
    notes: ClassVar[Mapping[calls.Call, str]] = {
        calls.Call.DELETE_ACLS: "does not print what it deleted; describing the ACLs shows it"
    }

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        return [self._create(acl) for acl in acls]

    def _create(self, acl: Acl) -> int:
        try:
            said = self._run(
                "--add",
                "--allow-principal",
                acl.principal,
                "--operation",
                Operation(acl.operation).name,
                *_pattern(acl.resource_name, PatternType(acl.pattern_type)),
            )
        except calls.RefusedError as error:
            return error.code
        assert "Adding ACLs for resource" in said or " already exists." in said, said
        return 0

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        return set(_listed(self._run("--list", *_pattern(topic, pattern_type))))

    def delete_acls(self, topic: str, pattern_type: PatternType) -> None:
        self._run("--remove", "--force", *_pattern(topic, pattern_type))


class KafkaConfigsTool(_Tool):
    """kafka-configs."""

    program = Program.CONFIGS
    offers_no_acls: ClassVar[str] = "kafka-configs is only for configs and SCRAM credentials"
    offers_no_more: ClassVar[str] = offers_no_acls

    def describe_configs(self) -> Mapping[str, calls.Config]:
        said = self._run("--describe", "--all", *_NODE)
        assert said.startswith(f"All configs for broker {calls.NODE_ID} are:\n"), said
        return dict(map(_config, said.splitlines()[1:]))

    def alter_config(self, name: str, value: str | None) -> None:
        change = ["--delete-config", name] if value is None else ["--add-config", f"{name}={value}"]
        said = self._run("--alter", *_NODE, *change)
        assert said == f"Completed updating config for broker {calls.NODE_ID}.\n"

    def alter_credential(self, user: str, mechanism: str, iterations: int | None) -> None:
        change = (
            ["--delete-config", mechanism]
            if iterations is None
            else [
                "--add-config",
                f"{mechanism}=[iterations={iterations},password={calls.PASSWORD}]",
            ]
        )
        said = self._run("--alter", *_USER, user, *change)
        assert said == f"Completed updating config for user {user}.\n"

    def describe_credentials(self, user: str) -> Mapping[str, int]:
        head, _, credentials = self._run("--describe", *_USER, user).partition(" are ")
        assert head == f"SCRAM credential configs for user-principal '{user}'"
        parts = [each.split("=iterations=") for each in credentials.split(", ")]
        return {mechanism: int(iterations) for mechanism, iterations in parts}


_USER: Final = ("--entity-type", "users", "--entity-name")
_NODE: Final = ("--entity-type", "brokers", "--entity-name", str(calls.NODE_ID))


def _pattern(topic: str, pattern_type: PatternType) -> list[str]:
    return ["--topic", topic, "--resource-pattern-type", pattern_type.name.lower()]


def _listed(said: str) -> Iterator[Acl]:
    pattern: tuple[int, str, int] | None = None
    for line in said.splitlines():
        if head := _HEAD.search(line):
            pattern = (ResourceType[head[1]], head[2], PatternType[head[3]])
        elif entry := _ENTRY.search(line):
            assert pattern is not None, said
            yield Acl(*pattern, entry[1], entry[2], Operation[entry[3]], PermissionType[entry[4]])


def _config(line: str) -> tuple[str, calls.Config]:
    found = _CONFIG.fullmatch(line)
    assert found is not None, line
    source = found["synonyms"].partition(":")[0]
    value = None if found["value"] == "null" else found["value"]
    return found["name"], calls.Config(value, calls.CONFIG_SOURCES.get(source, 0))
