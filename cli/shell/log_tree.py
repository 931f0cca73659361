"""The tree of a metadata log: ``/acl`` of KIP-801, and ``/image`` and ``/local`` of Kafka 4.3.

**Invariant:** no file has a secret: credentials lose their salt and keys, and the value of a config
is shown only if it certainly is not secret.

Source: KIP-801; Kafka 4.3 MetadataImageNode and the nodes below it, LocalShellNode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final, TypeVar

from authorizerd.acl.model import Acl
from authorizerd.cli.shell.java_text import (
    REDACTED,
    describe_broker,
    describe_controller,
    describe_credential,
    describe_double,
    describe_metadata_version,
    describe_partition,
    describe_provenance,
    describe_quota_entity,
    describe_token,
    format_uuid,
    parse_uuid,
)
from authorizerd.cli.shell.log_contents import LogContents
from authorizerd.cli.shell.secret_configs import BROKER_TYPES, is_shown
from authorizerd.cli.shell.tree import File, Folder, Node, file_of, folder_of, table_of
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ClusterImage, Topic
from authorizerd.protocol.records.metadata import METADATA_VERSION_FEATURE
from authorizerd.protocol.records.scram import ScramMechanism

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_FINALIZED: Final = "finalized_"
_CONFIG_TYPES: Final = {
    8: "BROKER_LOGGER", 4: "BROKER", 2: "TOPIC", 16: "CLIENT_METRICS", 32: "GROUP",
}  # fmt: skip
_MECHANISMS: Final = {each.text: each for each in ScramMechanism}

Value = TypeVar("Value")

Children = Mapping[str, Callable[[], Node]]


def root_of(image: Children, acls: Mapping[bytes, Acl]) -> Folder:
    """Return the root of a tree.

    Args:
        image: the folders of ``/image``, except that of ACLs.
    """
    by_id = {"byId": lambda: _acls(acls, _describe_acl)}
    return folder_of(
        {
            "acl": lambda: folder_of({"id": lambda: _acls(acls, _acl_as_json)}),
            "image": lambda: folder_of({"acls": lambda: folder_of(by_id), **image}),
            "local": lambda: table_of({"commitId": "unknown", "version": version("authorizerd")}),
        }
    )


def log_tree(contents: LogContents) -> Folder:
    """Return the tree of a log's contents, which must not change any more."""
    image = contents.image
    provenance = contents.provenance
    nodes: Children = {
        "brokers": lambda: by_number(contents.brokers, describe_broker),
        "controllers": lambda: by_number(contents.controllers, describe_controller),
    }
    children: Children = {
        "clientQuotas": lambda: _quotas(contents),
        "cluster": lambda: folder_of(nodes),
        "configs": lambda: configs_folder(image.configs),
        "delegationToken": lambda: table_of(
            {name: describe_token(token) for name, token in contents.tokens.items()}
        ),
        "features": lambda: features_folder(image.features),
        "producerIds": lambda: table_of({"nextProducerId": str(contents.next_producer_id)}),
        "provenance": lambda: file_of(
            describe_provenance(provenance.offset, provenance.epoch, provenance.time_ms)
        ),
        "scram": lambda: scram_folder(image),
        "topics": lambda: _topics(image),
    }
    return root_of(children, contents.acls)


def _acls(acls: Mapping[bytes, Acl], describe: Callable[[bytes, Acl], File]) -> Folder:
    def find(name: str) -> File | None:
        acl_id = parse_uuid(name)
        acl = None if acl_id is None else acls.get(acl_id)
        return None if acl_id is None or acl is None else describe(acl_id, acl)

    return Folder(lambda: map(format_uuid, acls), find)


def _describe_acl(id: bytes, acl: Acl) -> File:
    return file_of(str(acl))


def _acl_as_json(id: bytes, acl: Acl) -> File:
    """Return the record of an ACL in the form that Kafka 3.2's shell printed."""
    fields: dict[str, str | int] = {
        "id": format_uuid(id),
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
    """Return a JSON value without characters that a terminal obeys."""
    encoded = json.dumps(value, ensure_ascii=False)
    if encoded.isprintable():
        return encoded
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in encoded)


def by_number(nodes: Mapping[int, Value], describe: Callable[[Value], str]) -> Folder:
    """Return a folder with a file for each node id."""

    def find(name: str) -> File | None:
        found = nodes.get(int(name)) if _INTEGER.fullmatch(name) else None
        return None if found is None else file_of(describe(found))

    return Folder(lambda: map(str, nodes), find)


def _quotas(contents: LogContents) -> Folder:
    by_name = {describe_quota_entity(entity): values for entity, values in contents.quotas.items()}

    def find(name: str) -> Folder | None:
        values = by_name.get(name)
        if values is None:
            return None
        return table_of({key: describe_double(value) for key, value in values.items()})

    return Folder(lambda: by_name, find)


def configs_folder(configs: Mapping[tuple[int, str], Mapping[str, str]]) -> Folder:
    """Return a folder with a folder for each resource, whose files are the configs' values."""
    by_name = {
        f"{kind}:{name}" if name else kind: (type_code, values)
        for (type_code, name), values in configs.items()
        for kind in (_CONFIG_TYPES.get(type_code, "UNKNOWN"),)
    }

    def find(name: str) -> Folder | None:
        found = by_name.get(name.removesuffix(":") if name.count(":") == 1 else name)
        if found is None:
            return None
        type_code, values = found
        is_broker = type_code in BROKER_TYPES
        return table_of(
            {
                key: value if is_shown(key, is_broker=is_broker) else REDACTED
                for key, value in values.items()
            }
        )

    return Folder(lambda: by_name, find)


def features_folder(features: Mapping[str, int]) -> Folder:
    """Return the folder of finalized features. Kafka's has a file for any name: level 0."""
    level = features.get(METADATA_VERSION_FEATURE)
    others = {f"{_FINALIZED}{name}" for name in features if name != METADATA_VERSION_FEATURE}

    def find(name: str) -> File | None:
        if name == "metadataVersion":
            return file_of(describe_metadata_version(level))
        if not name.startswith(_FINALIZED):
            return None
        known = name.removeprefix(_FINALIZED)
        return file_of(str(features[known] if name in others else 0))

    return Folder(lambda: {"metadataVersion", *others}, find)


def scram_folder(image: ClusterImage) -> Folder:
    """Return a folder with a folder of users for each mechanism."""

    def find(name: str) -> Folder | None:
        mechanism = _MECHANISMS.get(name)
        if mechanism is None:
            return None
        users: dict[str, ScramCredential] = {
            user: credential
            for (user, code), credential in image.credentials.items()
            if code == mechanism
        }
        return table_of({user: describe_credential(each) for user, each in users.items()})

    return Folder(lambda: _MECHANISMS, find)


def _topics(image: ClusterImage) -> Folder:
    def find_by_id(name: str) -> Folder | None:
        topic_id = parse_uuid(name)
        topic = None if topic_id is None else image.find_topic(topic_id)
        return None if topic is None else _topic(topic)

    def find_by_name(name: str) -> Folder | None:
        topic = image.topics.get(name)
        return None if topic is None else _topic(topic)

    return folder_of(
        {
            "byId": lambda: Folder(lambda: map(format_uuid, image.topic_names), find_by_id),
            "byName": lambda: Folder(lambda: image.topics, find_by_name),
        }
    )


def _topic(topic: Topic) -> Folder:
    partitions = by_number(topic.partitions, describe_partition)
    about = {"id": format_uuid(topic.id), "name": topic.name}

    def find(name: str) -> Node | None:
        text = about.get(name)
        return partitions.find(name) if text is None else file_of(text)

    return Folder(lambda: (*about, *map(str, topic.partitions)), find)
