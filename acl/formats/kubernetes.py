"""Resources of Kubernetes beside KafkaUsers: which of them can hold ACLs of Kafka.

**Invariant:** a resource that may grant access, and is not read, is an error. Its access would
otherwise seem not to exist, and a plan would delete it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.formats.model import AclTextError, Loss
from authorizerd.acl.formats.unread import LIST_STEP
from authorizerd.acl.formats.values import Value, check_text
from authorizerd.acl.letter_case import ascii_lower

_STRIMZI: Final = re.compile(r"[a-z]+\.strimzi\.io")
_OWN_GROUPS: Final = re.compile(r"[a-z]*|[a-z.]+\.k8s\.io")
"""The groups of Kubernetes itself: those without a dot, such as ``apps``, and ``….k8s.io``."""
_KUSTOMIZATION: Final = "Kustomization"
_ACCESS_KINDS: Final = re.compile(r"acl|auth|access|grant|permission|principal|role|user")
_ACCESS_KEYS: Final = re.compile(r"acls?|.*grants?|operations?|permissions?|principals?")


def pass_over(place: str, kind: str, resource: dict[str, Value]) -> Iterator[Loss]:
    """Yield a loss if it is unknown whether a resource of another kind than KafkaUser has ACLs.

    Nothing is lost of Strimzi's and Kubernetes' own resources.

    Raises:
        AclTextError: the resource may have ACLs.
    """
    version = check_text(f"{place}.apiVersion", resource.get("apiVersion"))
    group, _, _ = version.rpartition("/")
    if kind == _KUSTOMIZATION:
        raise AclTextError(
            place, "expected the resources themselves: pass the output of kubectl kustomize"
        )
    if _STRIMZI.fullmatch(group) or _OWN_GROUPS.fullmatch(group):
        return
    if _ACCESS_KINDS.search(ascii_lower(kind)) or _has_access_key(resource):
        raise AclTextError(
            place,
            f"not a KafkaUser of Strimzi: a resource of kind {kind} and apiVersion {version} is "
            f"not read, and may have ACLs: apply it, and {LIST_STEP}",
        )
    yield Loss(None, f"{place}: a resource of kind {kind} is not read", is_document=True)


def _has_access_key(value: Value) -> bool:
    if isinstance(value, list):
        return any(map(_has_access_key, value))
    return isinstance(value, dict) and any(
        _ACCESS_KEYS.fullmatch(ascii_lower(str(key))) or _has_access_key(each)
        for key, each in value.items()
    )
