"""Strimzi's KafkaUser resources: each has one principal and its rules.

For each KafkaUser, the User Operator sets the ACLs of exactly two principals: ``User:NAME`` and
``User:CN=NAME``. ``spec.authentication`` decides which of them gets the rules; the other gets none.
Both are in the scope, even if the KafkaUser has no rules.

Source: Strimzi 0.45 and 1.0, API versions v1beta2 and v1 of kafka.strimzi.io: the CRD of KafkaUser,
KafkaUserModel, SimpleAclRule, KafkaUserOperator.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Loss, Scope
from authorizerd.management.formats.parsing import parse_documents
from authorizerd.management.formats.unread import LIST_STEP, pass_over
from authorizerd.management.formats.values import (
    OLD_OPERATIONS,
    Value,
    check_creatable,
    check_keys,
    check_list,
    check_mapping,
    check_text,
    check_word,
    keep_writable,
    spell,
    why_not_creatable,
)
from authorizerd.management.formats.yaml_text import Node, write_yaml

_GROUP: Final = "kafka.strimzi.io/"
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha1")
_KIND: Final = "KafkaUser"
_CLUSTER_LABEL: Final = "strimzi.io/cluster"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain name, which Kubernetes requires."""
_NAME_CHARACTERS_MAX: Final = 253
_TLS_NAME_CHARACTERS_MAX: Final = 64
_PRINCIPAL: Final = re.compile(r"User:(CN=)?(.*)", re.DOTALL)

_TLS_TYPES: Final = ("tls", "tls-external")
_AUTHENTICATION_TYPES: Final = {name: name for name in (*_TLS_TYPES, "scram-sha-512")}
_AUTHORIZATION_TYPES: Final = {"simple": "simple"}
_OPERATIONS: Final = {spell(operation): operation for operation in OLD_OPERATIONS}
_RESOURCE_TYPES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_PATTERN_TYPES: Final = {"literal": PatternType.LITERAL, "prefix": PatternType.PREFIXED}
_PERMISSION_TYPES: Final = {"allow": PermissionType.ALLOW, "deny": PermissionType.DENY}
_TYPE_NAMES: Final = {code: name for name, code in _RESOURCE_TYPES.items()}


def read(text: str) -> AclsRead:
    acls: list[Acl] = []
    losses: list[Loss] = []
    users: dict[str, str] = {}
    clusters: dict[str, str] = {}
    for place, resource in _resources(text):
        kind = check_text(f"{place}.kind", resource.get("kind"))
        if kind != _KIND:
            losses += pass_over(place, kind, resource)
            continue
        version = _check_version(place, resource)
        name = _check_metadata(place, resource, clusters)
        if name in users:
            raise AclTextError(place, f"repeats the KafkaUser {name} of {users[name]}")
        users[name] = place
        acls.extend(_acls_of(f"{place}.spec", resource.get("spec"), name, version))
    principals = {f"User:{prefix}{name}" for name in users for prefix in ("", "CN=")}
    return AclsRead(tuple(dict.fromkeys(acls)), tuple(losses), Scope(frozenset(principals)))


def _resources(text: str) -> Iterator[tuple[str, dict[str, Value]]]:
    """Yield the resources of all documents; a list of Kubernetes stands for its items."""
    for place, document in parse_documents(text):
        resource = check_mapping(place, document)
        if resource.get("kind") not in ("List", f"{_KIND}List"):
            yield place, resource
            continue
        for item_place, item in check_list(f"{place}.items", resource.get("items"), "resources"):
            yield item_place, check_mapping(item_place, item)


def _check_version(place: str, resource: dict[str, Value]) -> str:
    check_keys(
        place,
        resource,
        required=("apiVersion", "kind", "metadata", "spec"),
        optional=("status",),
    )
    text = check_text(f"{place}.apiVersion", resource["apiVersion"])
    version = text.removeprefix(_GROUP)
    if text != f"{_GROUP}{version}" or version not in _VERSIONS:
        raise AclTextError(
            f"{place}.apiVersion",
            f"not a KafkaUser of Strimzi: expected {_GROUP} with {', '.join(_VERSIONS)}, found "
            f"{text!r}. Of another operator's, {LIST_STEP}",
        )
    return version


def _check_metadata(place: str, resource: dict[str, Value], clusters: dict[str, str]) -> str:
    """Return the name; check that all names so far are of one cluster and namespace."""
    place = f"{place}.metadata"
    metadata = check_mapping(place, resource["metadata"])
    name = check_text(f"{place}.name", metadata.get("name"))
    if not _is_kubernetes_name(name):
        raise AclTextError(
            f"{place}.name",
            f"expected a name of Kubernetes (a-z, 0-9, '-' and '.'), found {name!r}",
        )
    labels = check_mapping(f"{place}.labels", metadata.get("labels") or {})
    for key, value in (
        ("namespace", metadata.get("namespace")),
        (f"label {_CLUSTER_LABEL}", labels.get(_CLUSTER_LABEL)),
    ):
        if value is None:
            continue
        present = clusters.setdefault(key, check_text(place, value))
        if value != present:
            raise AclTextError(
                place,
                f"expected the {key} {present!r}, as before, found {value!r}: use one file for "
                "each Kafka cluster",
            )
    return name


def _acls_of(place: str, value: Value, name: str, version: str) -> Iterator[Acl]:
    check_keys(
        place,
        value,
        required=(),
        optional=("authentication", "authorization", "quotas", "template"),
    )
    principal = f"User:{_certificate_prefix(place, value.get('authentication'), name)}{name}"
    authorization = value.get("authorization")
    if authorization is None:
        return
    place = f"{place}.authorization"
    check_keys(place, authorization, required=("type", "acls"))
    check_word(f"{place}.type", authorization["type"], _AUTHORIZATION_TYPES)
    for rule_place, rule in check_list(f"{place}.acls", authorization["acls"], "rules"):
        yield from _acls_of_rule(rule_place, rule, principal, version)


def _certificate_prefix(place: str, authentication: Value, name: str) -> str:
    if authentication is None:
        return ""
    place = f"{place}.authentication"
    method = check_word(
        f"{place}.type", check_mapping(place, authentication).get("type"), _AUTHENTICATION_TYPES
    )
    if method == "tls" and len(name) > _TLS_NAME_CHARACTERS_MAX:
        raise AclTextError(
            place, f"with tls, a name has at most {_TLS_NAME_CHARACTERS_MAX} characters"
        )
    return "CN=" if method in _TLS_TYPES else ""


def _acls_of_rule(place: str, rule: Value, principal: str, version: str) -> Iterator[Acl]:
    old = () if version == "v1" else ("operation",)
    check_keys(place, rule, required=("resource",), optional=("type", "host", "operations", *old))
    if ("operation" in rule) == ("operations" in rule):
        raise AclTextError(place, "expected either operations or operation")
    permission_type = check_word(f"{place}.type", rule.get("type", "allow"), _PERMISSION_TYPES)
    resource = _resource(f"{place}.resource", rule["resource"])
    host = check_text(f"{place}.host", rule.get("host", WILDCARD))
    operations = (
        [(f"{place}.operation", rule["operation"])]
        if "operation" in rule
        else check_list(f"{place}.operations", rule["operations"], "operations")
    )
    for operation_place, word in operations:
        operation = check_word(operation_place, word, _OPERATIONS)
        acl = Acl(*resource, principal, host, int(operation), int(permission_type))
        yield check_creatable(place, acl)


def _resource(place: str, value: Value) -> tuple[int, str, int]:
    check_keys(place, value, required=("type",), optional=("name", "patternType"))
    resource_type = check_word(f"{place}.type", value["type"], _RESOURCE_TYPES)
    pattern_type = check_word(
        f"{place}.patternType", value.get("patternType", "literal"), _PATTERN_TYPES
    )
    if resource_type == ResourceType.CLUSTER:
        # Strimzi ignores both fields here.
        check_text(f"{place}.name", value.get("name", CLUSTER_NAME))
        return int(resource_type), CLUSTER_NAME, int(PatternType.LITERAL)
    return int(resource_type), check_text(f"{place}.name", value.get("name")), int(pattern_type)


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a KafkaUser for each principal, sorted by name.

    ``User:NAME`` has no authentication in it, and ``User:CN=NAME`` has ``tls-external``: the User
    Operator creates a credential for neither.
    """
    kept, losses = keep_writable(acls, _why_not)
    plain = {acl.principal for acl in kept}
    kept, clashes = keep_writable(kept, lambda acl: _why_not_both(acl, plain))
    kept.sort(key=lambda acl: (*_name_of(acl), _rule_of(acl), acl.operation))
    users = [
        _make_user(name, is_certificate, list(group))
        for (name, is_certificate), group in groupby(kept, key=_name_of)
    ]
    if not users:
        users = [{"apiVersion": "v1", "kind": "List", "items": []}]
    return AclsWritten(write_yaml(*users), losses + clashes)


def _why_not(acl: Acl) -> str | None:
    """Return why no KafkaUser can have ``acl`` as a rule; None if that is possible."""
    if reason := why_not_creatable(acl):
        return reason
    matched = _PRINCIPAL.fullmatch(acl.principal)
    if not (matched and _is_kubernetes_name(matched[2])):
        return (
            "Strimzi's principals are User:NAME and User:CN=NAME, with a name that Kubernetes "
            "accepts: a-z, 0-9, '-' and '.'"
        )
    if acl.resource_type not in _TYPE_NAMES:
        return f"Strimzi has no rules for {ResourceType(acl.resource_type).name}"
    if acl.operation not in OLD_OPERATIONS:
        return f"Strimzi does not know the operation {Operation(acl.operation).name}"
    if acl.resource_type == ResourceType.CLUSTER and acl.pattern_type != PatternType.LITERAL:
        return "Strimzi's rules for the cluster are literal"
    return None


def _why_not_both(acl: Acl, plain: Container[str]) -> str | None:
    name, is_certificate = _name_of(acl)
    if is_certificate and f"User:{name}" in plain:
        return f"the KafkaUser {name} is needed for the ACLs of User:{name}"
    return None


def _is_kubernetes_name(name: str) -> bool:
    return len(name) <= _NAME_CHARACTERS_MAX and _NAME.fullmatch(name) is not None


def _name_of(acl: Acl) -> tuple[str, bool]:
    """Return the name of the KafkaUser, and whether it stands for a certificate."""
    name = acl.principal.removeprefix("User:")
    return name.removeprefix("CN="), name.startswith("CN=")


def _make_user(name: str, is_certificate: bool, acls: Sequence[Acl]) -> Node:
    spec: dict[str, Node] = {"authentication": {"type": "tls-external"}} if is_certificate else {}
    rules: list[Node] = [
        _make_rule(rule, list(group)) for rule, group in groupby(acls, key=_rule_of)
    ]
    spec["authorization"] = {"type": "simple", "acls": rules}
    return {
        "apiVersion": f"{_GROUP}v1",
        "kind": _KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def _rule_of(acl: Acl) -> tuple[int, str, int, str, int]:
    """Return the fields that the ACLs of one rule share."""
    return (acl.resource_type, acl.resource_name, acl.pattern_type, acl.host, acl.permission_type)


def _make_rule(rule: tuple[int, str, int, str, int], acls: Iterable[Acl]) -> Node:
    resource_type, name, pattern_type, host, permission_type = rule
    resource: dict[str, Node] = {"type": _TYPE_NAMES[ResourceType(resource_type)]}
    if resource_type != ResourceType.CLUSTER:
        pattern = "prefix" if pattern_type == PatternType.PREFIXED else "literal"
        resource |= {"name": name, "patternType": pattern}
    is_denial = permission_type == PermissionType.DENY
    return {
        **({"type": "deny"} if is_denial else {}),
        "resource": resource,
        **({} if host == WILDCARD else {"host": host}),
        "operations": [spell(Operation(acl.operation)) for acl in acls],
    }
