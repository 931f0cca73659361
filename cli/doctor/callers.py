"""Check the callers of the decision ports: they should have no rights in Kafka, and need none.

**Invariant:** no secret is shown, and a log that cannot be read is another check's finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PermissionType,
    ResourceType,
)
from authorizerd.cli.doctor.finding import Finding, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.own_keys import CALLERS_PREFIX
from authorizerd.daemon.decisions.token_file import read_tokens
from authorizerd.daemon.errors import StartError
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.log_state import read_state
from authorizerd.protocol.http.rights import Right

_CHECK: Final = "callers"
_USER: Final = "User:"
_OWN: Final = "give the caller a principal of its own: authorizerd token --principal NAME"
_FORMER: Final = {
    Operation.CLUSTER_ACTION: (Right.ASK, Right.SEARCH),
    Operation.DESCRIBE: (Right.READ,),
}
"""What these rights of Kafka allowed callers in earlier versions of the daemon."""
_FORMER_OPERATIONS: Final = {
    Operation.CLUSTER_ACTION: (Operation.CLUSTER_ACTION, Operation.ALL),
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.ALTER, Operation.ALL),
}


def examine_callers(configuration: Configuration) -> Iterator[Finding]:
    """Examine the principals of the tokens file and of ``authorizerd.callers.*``."""
    if configuration.tokens_file is None and not configuration.has_client_auth:
        return  # everyone is trusted, and nobody is known
    holders = _read_token_holders(configuration.tokens_file)
    listed = frozenset[str]().union(*configuration.callers.values())
    acls, users = _read_log(Path(configuration.metadata_log_dir))
    for principal in sorted((holders | listed) - configuration.super_users):
        yield from _examine_caller(
            principal,
            is_user=principal in users or principal in holders,
            rights=_find_cluster_rights(acls, principal),
            listed=configuration.callers,
        )
    for right in Right:
        names = sorted(configuration.callers[right])
        yield ok(_CHECK, f"{CALLERS_PREFIX}{right}: {'; '.join(names) or 'super users only'}")


def _read_token_holders(path: str | None) -> frozenset[str]:
    try:
        return frozenset() if path is None else read_tokens(path).principals
    except (StartError, ConfigurationError):
        return frozenset()  # examine_access reports it


def _read_log(log_dir: Path) -> tuple[tuple[Acl, ...], frozenset[str]]:
    """Return the ACLs on the cluster, and the principals that ACLs and SCRAM credentials name."""
    try:
        content = read_state(log_dir).content
    except (MetadataLogError, ChangeError, OSError):
        return (), frozenset()
    names = {acl.principal for acl in content.acls.values()}
    acls = tuple(acl for acl in content.acls.values() if acl.resource_type == ResourceType.CLUSTER)
    names |= {f"{_USER}{name}" for name, _ in content.cluster.credentials}
    return acls, frozenset(names)


def _find_cluster_rights(acls: Iterable[Acl], principal: str) -> frozenset[Operation]:
    """Return which rights of ``_FORMER`` a principal has from any host."""
    found: set[Operation] = set()
    denied: set[Operation] = set()
    for acl in acls:
        if acl.principal not in (principal, WILDCARD_PRINCIPAL):
            continue
        covered = {each for each, wider in _FORMER_OPERATIONS.items() if acl.operation in wider}
        if acl.permission_type == PermissionType.ALLOW:
            found |= covered
        elif acl.host == WILDCARD:
            denied |= covered
    return frozenset(found - denied)


def _examine_caller(
    principal: str,
    *,
    is_user: bool,
    rights: frozenset[Operation],
    listed: Mapping[str, frozenset[str]],
) -> Iterator[Finding]:
    if Operation.CLUSTER_ACTION in rights:
        text = (
            f"{principal}: holds CLUSTER_ACTION in the cluster, with which it can read every topic"
            " and act as anybody there"
        )
        remedy = "remove the ACL once no daemon of version 1.0 needs it"
        yield warning(_CHECK, text, f"{remedy}; {_OWN}" if principal.startswith(_USER) else remedy)
    elif is_user and principal.startswith(_USER):
        text = f"{principal}: may be a user of Kafka, so what its ACLs allow is at risk with it"
        yield warning(_CHECK, text, _OWN)
    for operation in sorted(rights):
        keys = [each.key for each in _FORMER[operation] if principal not in listed[each]]
        if keys:
            text = (
                f"{principal}: {operation.name} in an ACL was the right to use the decision ports"
                f" up to version 1.0; now {' and '.join(keys)} must list it"
            )
            if Operation.DESCRIBE not in rights and principal not in listed[Right.READ]:
                text += f", and {Right.READ.key} for questions about the past"
            yield warning(_CHECK, text, "list the principal there, if it needs the right")
