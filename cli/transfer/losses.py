"""Which ACLs a kind of target cannot hold, and why.

| target | what it loses |
|---|---|
| log directory, checkpoint | names that no Kafka client could list |
| cluster | also what Kafka's controller rejects: unknown codes, bad principals and names |
| file | what its format says (``acl.formats``) |

Source: Kafka 4.3 AclApis.handleCreateAcls, AclControlManager.validateNewAcl; the string type of
Kafka's protocol.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import Acl
from authorizerd.acl.validation import validate_new_acl, validate_resource

TEXT_BYTES_MAX: Final = 32_767
"""The longest string in a request or response: its length is an int16."""


def find_log_fault(acl: Acl) -> str | None:
    """Return why a log cannot hold an ACL. It holds unknown codes, which clients see as UNKNOWN."""
    texts = {"name": acl.resource_name, "principal": acl.principal, "host": acl.host}
    for what, text in texts.items():
        if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode()) > TEXT_BYTES_MAX:
            return f"the {what} is longer than {TEXT_BYTES_MAX} bytes, which no client could list"
    return None


def find_cluster_fault(acl: Acl) -> str | None:
    """Return why a Kafka cluster would reject the creation of an ACL."""
    try:
        validate_resource(acl)
        validate_new_acl(acl)
    except InvalidAclError as error:
        return f"a cluster rejects it: {error}"
    return find_log_fault(acl)
