"""The folders of the shell's tree, built from values of a log or a broker.

**Invariant:** no file contains a secret: salts and keys of credentials are removed, and a config's
value is shown only if it is certainly not secret.

Source: KIP-801; Kafka 4.3 MetadataImageNode and the nodes below it, LocalShellNode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final, TypeAlias, TypeVar

from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_json
from authorizerd.cli.shell import java_text
from authorizerd.cli.shell.tree import File, Folder, Node, file_of, folder_of, table_of
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ConfigResource, Login
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.protocol.records.scram import ScramMechanism

Value = TypeVar("Value")

Children: TypeAlias = Mapping[str, Callable[[], Node | None]]
Acls: TypeAlias = Mapping[bytes, Acl]
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of a type and a name. A name of None is the default."""

CONFIG_TYPES: Final[Mapping[int, str]] = {
    0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP",
}  # fmt: skip
"""Kafka's ConfigResource.Type."""
_CONFIG_CODES: Final = {name: code for code, name in CONFIG_TYPES.items()}

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_FINALIZED: Final = "finalized_"
_MECHANISMS: Final = {scram_mechanism.text: scram_mechanism for scram_mechanism in ScramMechanism}


def root_of(image: Children, load_acls: Callable[[], Acls | None]) -> Folder:
    """Return the root of a tree.

    Args:
        image: the folders of ``/image``, except the folder of ACLs.
        load_acls: returns all ACLs by id, or None to leave them out.
    """

    def load(name: str, describe: Callable[[bytes, Acl], File]) -> Folder | None:
        acls = load_acls()
        return None if acls is None else folder_of({name: lambda: _acls_folder(acls, describe)})

    return folder_of(
        {
            "acl": lambda: load("id", _acl_as_json),
            "image": lambda: folder_of(
                {"acls": lambda: load("byId", lambda _, acl: file_of(str(acl))), **image}
            ),
            "local": lambda: table_of({"commitId": "unknown", "version": version("authorizerd")}),
        }
    )


def _acls_folder(acls: Acls, describe: Callable[[bytes, Acl], File]) -> Folder:
    def find(name: str) -> File | None:
        acl_id = java_text.parse_uuid(name)
        acl = None if acl_id is None else acls.get(acl_id)
        return None if acl_id is None or acl is None else describe(acl_id, acl)

    return Folder(lambda: map(java_text.format_uuid, acls), find, has_only_files=True)


def _acl_as_json(id: bytes, acl: Acl) -> File:
    """Return the record of an ACL in the form that Kafka 3.3's shell printed."""
    fields: dict[str, str | int] = {
        "id": java_text.format_uuid(id),
        "resourceType": acl.resource_type,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permissionType": acl.permission_type,
    }
    body = ",\n".join(f'  "{key}" : {_encode(value)}' for key, value in fields.items())
    return File(("{", *body.split("\n"), "}"))


def _encode(value: str | int) -> str:
    """Return a JSON value without characters that control a terminal."""
    return escape_json(json.dumps(value, ensure_ascii=False))


def nodes_folder(nodes: Mapping[int, Value], describe: Callable[[Value], str]) -> Folder:
    def find(name: str) -> File | None:
        found = nodes.get(int(name)) if _INTEGER.fullmatch(name) else None
        return None if found is None else file_of(describe(found))

    return Folder(lambda: map(str, nodes), find, has_only_files=True)


def quotas_folder(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> Folder:
    """Return a folder with a folder for each entity, whose files are its quotas."""
    by_name = {java_text.describe_quota_entity(entity): values for entity, values in quotas.items()}

    def find(name: str) -> Folder | None:
        values = by_name.get(name)
        if values is None:
            return None
        return table_of({key: java_text.describe_double(value) for key, value in values.items()})

    return Folder(lambda: by_name, find)


def name_resource(resource: ConfigResource) -> str:
    type_code, name = resource
    kind = CONFIG_TYPES[type_code]
    return f"{kind}:{name}" if name else kind


def read_resource_name(name: str) -> ConfigResource | None:
    """Return the resource whose folder has this name. A colon without a name means the default."""
    kind, _, resource_name = name.partition(":")
    code = _CONFIG_CODES.get(kind)
    return None if code is None else (code, resource_name)


def configs_folder(configs: Mapping[ConfigResource, Mapping[str, str]]) -> Folder:
    """Return a folder with a folder for each resource, whose files are its configs."""

    known = {
        (code if code in CONFIG_TYPES else 0, name): values
        for (code, name), values in configs.items()
    }

    def find(name: str) -> Folder | None:
        resource = read_resource_name(name)
        values = None if resource is None else known.get(resource)
        return None if resource is None or values is None else config_table(resource, values)

    return Folder(lambda: map(name_resource, known), find)


def config_table(resource: ConfigResource, values: Mapping[str, str]) -> Folder:
    is_broker = resource[0] in java_text.BROKER_TYPES
    return table_of(
        {
            key: value if java_text.is_shown(key, is_broker=is_broker) else java_text.REDACTED
            for key, value in values.items()
        }
    )


def features_folder(features: Mapping[str, int]) -> Folder:
    """Return the folder of finalized features. As in Kafka, an unknown feature has level 0."""
    level = features.get(METADATA_VERSION_FEATURE)
    names = {f"{_FINALIZED}{name}": name for name in features if name != METADATA_VERSION_FEATURE}

    def find(name: str) -> File | None:
        if name == "metadataVersion":
            return file_of(java_text.describe_metadata_version(level))
        if not name.startswith(_FINALIZED):
            return None
        return file_of(str(features[names[name]] if name in names else 0))

    return Folder(lambda: {"metadataVersion", *names}, find)


def scram_folder(credentials: Mapping[Login, ScramCredential]) -> Folder:
    def find(name: str) -> Folder | None:
        mechanism = _MECHANISMS.get(name)
        if mechanism is None:
            return None
        return table_of(
            {
                user: java_text.describe_credential(credential)
                for (user, code), credential in credentials.items()
                if code == mechanism
            }
        )

    return Folder(lambda: _MECHANISMS, find)


def topics_folder(
    ids: Mapping[bytes, str],
    find_topic: Callable[[str], Folder | None],
    names: Mapping[str, object],
) -> Folder:
    def find_by_id(name: str) -> Folder | None:
        topic_id = java_text.parse_uuid(name)
        found = None if topic_id is None else ids.get(topic_id)
        return None if found is None else find_topic(found)

    return folder_of(
        {
            "byId": lambda: Folder(lambda: map(java_text.format_uuid, ids), find_by_id),
            "byName": lambda: Folder(lambda: names, find_topic),
        }
    )


def topic_folder(
    id: bytes, name: str, partitions: Mapping[int, Value], describe: Callable[[Value], str]
) -> Folder:
    numbered = nodes_folder(partitions, describe)
    about = {"id": java_text.format_uuid(id), "name": name}

    def find(name: str) -> Node | None:
        text = about.get(name)
        return numbered.find(name) if text is None else file_of(text)

    return Folder(lambda: (*about, *map(str, partitions)), find)
