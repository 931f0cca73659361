"""Terraform's ACLs: ``kafka_acl`` of Mongey/kafka, and ``confluent_kafka_acl``.

Three kinds of JSON are read: a plan and a state (``terraform show -json``), and a configuration
(``*.tf.json``) without expressions, which is also what is written. A plan states which ACLs exist
after it; the ACLs that it deletes are also in the scope, and Terraform manages no others.

Source: Terraform's JSON output format 1; Mongey/terraform-provider-kafka 0.13;
confluentinc/terraform-provider-confluent 2; HCL's JSON syntax and templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import astuple, replace

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, Code, Operation, PermissionType, ResourceType
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.management.formats import terraform_values
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Loss, Scope
from authorizerd.management.formats.parsing import parse_json
from authorizerd.management.formats.unread import LIST_STEP
from authorizerd.management.formats.values import (
    DOCUMENT,
    OLD_OPERATIONS,
    OLD_RESOURCE_TYPES,
    PATTERN_TYPES,
    PERMISSION_TYPES,
    AclShape,
    Value,
    by_name,
    check_creatable,
    check_keys,
    check_list,
    check_mapping,
    check_text,
    keep_writable,
    spell,
    why_not_creatable,
    why_not_old,
)


class _Schema(NamedTuple):
    """The attributes of a type of resource; ``others`` say nothing about the ACL."""

    shape: AclShape
    defaults: Mapping[str, str]
    others: tuple[str, ...]


def _by_spelling(*codes: Code) -> dict[str, Code]:
    return {spell(code).replace("TransactionalId", "TransactionalID"): code for code in codes}


def _words(words: Callable[..., dict[str, Code]]) -> dict[str, dict[str, Code]]:
    return {
        "resource_type": words(*OLD_RESOURCE_TYPES),
        "pattern_type": words(*PATTERN_TYPES),
        "operation": words(*OLD_OPERATIONS),
        "permission_type": words(*PERMISSION_TYPES),
    }


_KAFKA: Final = "kafka_acl"
_SCHEMAS: Final[Mapping[str, _Schema]] = {
    _KAFKA: _Schema(
        AclShape(
            {
                "resource_name": "resource_name",
                "acl_principal": "principal",
                "acl_host": "host",
                "resource_type": "resource_type",
                "resource_pattern_type_filter": "pattern_type",
                "acl_operation": "operation",
                "acl_permission_type": "permission_type",
            },
            _words(_by_spelling),
        ),
        {"resource_pattern_type_filter": "Literal"},
        ("id",),
    ),
    "confluent_kafka_acl": _Schema(
        AclShape(
            {
                "resource_name": "resource_name",
                "principal": "principal",
                "host": "host",
                "resource_type": "resource_type",
                "pattern_type": "pattern_type",
                "operation": "operation",
                "permission": "permission_type",
            },
            _words(by_name),
        ),
        {},
        ("id", "kafka_cluster", "rest_endpoint", "credentials"),
    ),
}
_META_ARGUMENTS: Final = ("//", "depends_on", "lifecycle", "provider")
_SECTIONS: Final = ("//", "data", "locals", "output", "provider", "terraform", "variable")
_NAME_CHARACTERS_MAX: Final = 48


class _Resource(NamedTuple):
    """A resource from any part of the text; ``unknown`` are attributes known only later."""

    place: str
    type: str
    values: dict[str, Value]
    unknown: Mapping[str, Value]


def read(text: str) -> AclsRead:
    document = check_mapping(DOCUMENT, parse_json(text))
    found = _Found()
    if "format_version" not in document:
        found.add_all(_configured(document, found.losses))
        return found.read(())
    version = check_text("format_version", document["format_version"])
    if version.partition(".")[0] not in ("0", "1"):
        raise AclTextError("format_version", f"expected 0.x or 1.x, found {version!r}")
    if document.get("errored"):
        raise AclTextError("errored", "expected a complete plan: this one failed")
    if document.get("complete") is False:
        reason = "complete: the plan leaves changes out, as with -target: plan everything"
        found.losses.append(Loss(None, reason))
    changes = list(_list_changes(document))
    # A copy that is only deleted has the same address, and no unknown attributes.
    unknown = {
        place: attributes
        for place, _, change in changes
        if (attributes := _mapping(change.get("after_unknown")))
    }
    found.add_all(_planned(document, unknown))
    _check_one_cluster("configuration", set(_list_providers(document)))
    deleted = [
        _Resource(place, kind, check_mapping(place, change.get("before")), {})
        for place, kind, change in changes
        if kind in _SCHEMAS and "delete" in change["actions"]
    ]
    for each in deleted:
        found.check_cluster(each)
    return found.read([acl for acl in map(_make_acl, deleted) if isinstance(acl, Acl)])


class _Found:
    """The ACLs and the losses of the resources so far, all of one cluster."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self._acls: dict[Acl, None] = {}
        self._clusters: set[str] = set()

    def add_all(self, resources: Iterator[_Resource]) -> None:
        for resource in resources:
            if resource.type not in _SCHEMAS:
                if terraform_values.grants_access(
                    resource.type, [resource.values, {**resource.unknown}]
                ):
                    reason = (
                        f"{resource.place}: {resource.type} is not read: apply it, and {LIST_STEP}"
                    )
                    self.losses.append(Loss(None, reason))
                continue
            self.check_cluster(resource)
            acl = _make_acl(resource)
            if isinstance(acl, Acl):
                self._acls[acl] = None
            else:
                self.losses.append(acl)

    def check_cluster(self, resource: _Resource) -> None:
        self._clusters.add(_cluster_of(resource))
        _check_one_cluster(resource.place, self._clusters)

    def read(self, deleted: Sequence[Acl]) -> AclsRead:
        scope = Scope(acls=frozenset((*self._acls, *deleted)))
        return AclsRead(tuple(self._acls), tuple(self.losses), scope)


def _cluster_of(resource: _Resource) -> str:
    """Return the cluster's identity, if a resource names it."""
    clusters = resource.values.get("kafka_cluster")
    cluster = clusters[0] if isinstance(clusters, list) and clusters else clusters
    identity = cluster.get("id") if isinstance(cluster, dict) else None
    return f"{resource.type} {identity or resource.values.get('rest_endpoint') or ''}"


def _check_one_cluster(place: str, clusters: set[str]) -> None:
    if len(clusters) > 1:
        raise AclTextError(
            place,
            f"expected the ACLs of one cluster, found those of {', '.join(sorted(clusters))}: use "
            "a plan for each of them",
        )


def _mapping(value: Value) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}


def _list_changes(document: dict[str, Value]) -> Iterator[tuple[str, str, dict[str, Value]]]:
    """Yield the address, type and change of each managed resource that a plan is about."""
    items = check_list("resource_changes", document.get("resource_changes", []), "changes")
    for place, item in items:
        check_mapping(place, item)
        if item.get("mode") == "managed":
            change = check_mapping(f"{place}.change", item.get("change"))
            actions = check_list(f"{place}.change.actions", change.get("actions"), "actions")
            address = check_text(f"{place}.address", item.get("address"))
            kind = check_text(f"{place}.type", item.get("type"))
            change = {**change, "actions": [check_text(*action) for action in actions]}
            yield address, kind, change


def _planned(
    document: dict[str, Value], unknown: Mapping[str, Mapping[str, Value]]
) -> Iterator[_Resource]:
    """Yield the managed resources after a plan, or of a state, in all modules."""
    key = "planned_values" if "planned_values" in document else "values"
    values = check_mapping(key, document.get(key, {}))
    modules = [(f"{key}.root_module", values.get("root_module", {}))]
    while modules:
        place, module = modules.pop()
        check_mapping(place, module)
        for item_place, item in check_list(
            f"{place}.resources", module.get("resources", []), "resources"
        ):
            check_mapping(item_place, item)
            if item.get("mode") == "managed":
                address = check_text(f"{item_place}.address", item.get("address"))
                kind = check_text(f"{item_place}.type", item.get("type"))
                attributes = check_mapping(address, item.get("values") or {})
                yield _Resource(address, kind, attributes, unknown.get(address, {}))
        children = module.get("child_modules", [])
        modules += [*check_list(f"{place}.child_modules", children, "modules")][::-1]


def _list_providers(document: dict[str, Value]) -> Iterator[str]:
    """Yield the keys of the configured providers of all resources of ACLs in a plan."""
    modules = [_mapping(_mapping(document.get("configuration")).get("root_module"))]
    while modules:
        module = modules.pop()
        items = check_list("configuration.resources", module.get("resources") or [], "resources")
        for place, item in items:
            resource = check_mapping(place, item)
            if check_text(f"{place}.type", resource.get("type")) in _SCHEMAS:
                yield f"the provider {resource.get('provider_config_key')}"
        calls = _mapping(module.get("module_calls")).values()
        modules += [_mapping(_mapping(call).get("module")) for call in calls]


def _configured(document: dict[str, Value], losses: list[Loss]) -> Iterator[_Resource]:
    """Yield the resources of a configuration; modules are losses."""
    check_keys(DOCUMENT, document, required=(), optional=("resource", "module", *_SECTIONS))
    for name in check_mapping("module", document.get("module", {})):
        reason = "a module is read only in a plan: use terraform show -json"
        losses.append(Loss(None, f"module.{name}: {reason}"))
    providers: set[str] = set()
    for kind, named in check_mapping("resource", document.get("resource", {})).items():
        if kind not in _SCHEMAS:
            yield _Resource(f"resource.{kind}", kind, {kind: named}, {})
            continue
        for name, body in check_mapping(f"resource.{kind}", named).items():
            place = f"{kind}.{name}"
            values = {
                key: value
                for key, value in check_mapping(place, body).items()
                if key not in _META_ARGUMENTS
            }
            for key in sorted(values.keys() - {*_SCHEMAS[kind].others}):
                values[key] = terraform_values.unescape_template(f"{place}.{key}", values[key])
            # Terraform's default is the first word of the type.
            providers.add(f"the provider {body.get('provider', kind.partition('_')[0])}")
            _check_one_cluster(place, providers)
            yield _Resource(place, kind, values, {})


def _make_acl(resource: _Resource) -> Acl | Loss:
    place, (shape, defaults, others) = resource.place, _SCHEMAS[resource.type]
    for key in shape.keys:
        if key not in resource.values and resource.unknown.get(key):
            return Loss(None, f"{place}: {key} is known only after Terraform has applied the plan")
    values = {**defaults, **resource.values}
    check_keys(place, values, required=shape.keys, optional=others)
    return check_creatable(place, shape.read(place, values))


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a configuration with a ``kafka_acl`` for each ACL, sorted by principal.

    A resource's name has a hash of the ACL, so that it never changes.
    """
    kept, losses = keep_writable(acls, _why_not)
    ordered = sorted(kept, key=lambda acl: (acl.principal, astuple(acl)))
    resources = {_name_of(acl): _make_body(acl) for acl in ordered}
    assert len(resources) == len(kept)
    text = json.dumps({"resource": {_KAFKA: resources}}, indent=2, ensure_ascii=False)
    return AclsWritten(f"{text}\n", losses)


def _why_not(acl: Acl) -> str | None:
    texts = (acl.resource_name, acl.principal, acl.host)
    return (
        why_not_creatable(acl)
        or why_not_old(acl, "terraform-provider-kafka")
        or next(filter(None, map(terraform_values.why_not_string, texts)), None)
    )


def _name_of(acl: Acl) -> str:
    words = (
        PermissionType(acl.permission_type).name,
        Operation(acl.operation).name,
        ResourceType(acl.resource_type).name,
        acl.resource_name,
    )
    start = re.sub(r"[^a-z0-9]+", "_", ascii_lower(" ".join(words)))[:_NAME_CHARACTERS_MAX]
    return f"{start.strip('_')}_{derive_id(acl).hex()}"


def _make_body(acl: Acl) -> dict[str, str]:
    texts = ("resource_name", "principal", "host")
    escaped = {field: terraform_values.escape_template(getattr(acl, field)) for field in texts}
    return _SCHEMAS[_KAFKA].shape.write(replace(acl, **escaped))
