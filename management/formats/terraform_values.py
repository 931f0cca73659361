"""Terraform's literal strings, and its resources of other types that grant access to Kafka.

In HCL's JSON syntax, ``${`` begins an expression.

Source: HCL's specification of templates and of the JSON syntax; go-cty, whose strings are in
Unicode's normalization form C; the providers of Aiven, Confluent, DigitalOcean, Google, Huawei,
Instaclustr, OVH, Red Hat, Redpanda, Tencent and Yandex; kubernetes_manifest, kubectl_manifest and
helm_release.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.values import Value, check_text

_BEGINNING: Final = re.compile(r"[$%]\{")
_ESCAPED: Final = re.compile(r"\$\$\{|%%\{")
_BYTE_ORDER_MARK: Final = "\ufeff"


def why_not_string(text: str) -> str | None:
    """Return why Terraform would change a text; None if it would not."""
    if unicodedata.normalize("NFC", text) != text:
        return "Terraform changes text to Unicode's normalization form C"
    if text.startswith(_BYTE_ORDER_MARK):
        return "Terraform removes a byte order mark"
    return None


def escape_template(text: str) -> str:
    """Return a template with the value ``text``, if ``why_not_string`` returns None."""
    return _BEGINNING.sub(lambda found: f"{found[0][0]}{found[0]}", text)


def unescape_template(place: str, template: Value) -> str:
    """Return the value that Terraform would give a template without expressions."""
    text = check_text(place, template)
    if _BEGINNING.search(_ESCAPED.sub("-", text)):
        raise AclTextError(
            place,
            f"expected a text without an expression, found {text[:80]!r}: use the plan of "
            "terraform show -json",
        )
    value = _ESCAPED.sub(lambda found: found[0][1:], text)
    return unicodedata.normalize("NFC", value.removeprefix(_BYTE_ORDER_MARK))


_PRODUCTS: Final = re.compile("kafka|confluent|redpanda|rhoas")
_ACCESS: Final = re.compile(
    "_(?:acls?|group_mapping|permissions?|role_assignment|role_binding)(?:_|$)"
)
"""A part of a type's name that suggests access."""
_KEYS: Final = ("acl", "acls", "permission", "permissions")
_RESOURCES: Final = re.compile('topic|"(?:group|cluster|transactional_?id)"')
_MANIFEST: Final = "KafkaUser"
_DEFINITION: Final = "CustomResourceDefinition"
"""A definition of the kind KafkaUser is not a KafkaUser."""


def grants_access(resource_type: str, values: Value) -> bool:
    """Return True if a resource of a type that is not read grants access to Kafka."""
    if _PRODUCTS.search(resource_type) and _ACCESS.search(resource_type):
        return True
    text = json.dumps(values)
    return (_MANIFEST in text and _DEFINITION not in text) or any(
        _RESOURCES.search(ascii_lower(json.dumps(each))) for each in _list_access(values)
    )


def _list_access(value: Value) -> Iterator[Value]:
    """Yield the values of keys that suggest access, if these are not plain."""
    if isinstance(value, list):
        for each in value:
            yield from _list_access(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in _KEYS and isinstance(each, list | dict):
                yield each
            else:
                yield from _list_access(each)
