"""Terraform's resources that grant access to Kafka, and are of a type that is not read.

Source: the providers of Aiven, Confluent, DigitalOcean, Google, Huawei, Instaclustr, OVH, Red Hat,
Redpanda, Tencent and Yandex; kubernetes_manifest, kubectl_manifest and helm_release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.formats.values import Value
from authorizerd.acl.letter_case import ascii_lower

_PRODUCTS: Final = re.compile("kafka|confluent|redpanda|rhoas")
_ACCESS: Final = re.compile(
    "_(?:acls?|group_mapping|permissions?|role_assignment|role_binding)(?:_|$)"
)
"""A part of a type's name that speaks of access."""
_KEYS: Final = ("acl", "acls", "permission", "permissions")
_RESOURCES: Final = re.compile('topic|"(?:group|cluster|transactional_?id)"')
_MANIFEST: Final = "KafkaUser"
_DEFINITION: Final = "CustomResourceDefinition"
"""A definition of KafkaUsers is not one of them."""


def grants_access(resource_type: str, values: Value) -> bool:
    """Return True if a resource of a type that is not read grants access to Kafka.

    Args:
        values: its attributes, perhaps with those that are known only later.
    """
    if _PRODUCTS.search(resource_type) and _ACCESS.search(resource_type):
        return True
    text = json.dumps(values)
    return (_MANIFEST in text and _DEFINITION not in text) or any(
        _RESOURCES.search(ascii_lower(json.dumps(each))) for each in _list_access(values)
    )


def _list_access(value: Value) -> Iterator[Value]:
    """Yield the values of keys that speak of access, if they are not plain."""
    if isinstance(value, list):
        for each in value:
            yield from _list_access(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in _KEYS and isinstance(each, list | dict):
                yield each
            else:
                yield from _list_access(each)
