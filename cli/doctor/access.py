"""Check the files that the configuration names, and the callers of the decision ports.

Callers should have no rights in Kafka, and need none.

**Invariant:** a secret's file is read as the daemon would read it, and no secret is shown.
"""

from __future__ import annotations

import os
import pwd
import stat
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
from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.own_keys import CALLERS_PREFIX
from authorizerd.daemon.audit.setup import STANDARD_STREAMS, read_secret
from authorizerd.daemon.decisions.route_file import RouteFile
from authorizerd.daemon.decisions.token_file import read_tokens
from authorizerd.daemon.errors import StartError
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.lock import LOCK_NAME
from authorizerd.metadata.log_state import read_state
from authorizerd.protocol.http.rights import Right

_CHECK: Final = "access"
_SECRET_KEYS: Final = (
    *("sasl.jaas.config", ".client.secret", "ssl.key.password", "ssl.keystore.key"),
    *("ssl.keystore.password", "ssl.truststore.password"),
)
"""A key whose name ends with one of these has a secret value."""


def examine_access(config: Path, configuration: Configuration) -> Iterator[Finding]:
    """Examine the user, the log directory, and each configured file."""
    yield _examine_user()
    log_dir = Path(configuration.metadata_log_dir)
    if configuration.follow is not None and not log_dir.exists():
        yield _examine_missing_copy(log_dir)
    else:
        yield from _examine_log_dir(log_dir)
    if any(key.endswith(_SECRET_KEYS) for key in configuration.file_values):
        yield _examine_password_file(config)
    if configuration.audit_log is not None and configuration.audit_log not in STANDARD_STREAMS:
        yield _examine_audit_log(Path(configuration.audit_log))
    if configuration.audit_mask_secret_file is not None:
        yield _examine_secret(configuration.audit_mask_secret_file)
    if configuration.tokens_file is not None:
        yield _examine_tokens(configuration.tokens_file)
    if configuration.routes_file is not None:
        yield _examine_routes(configuration.routes_file)


def _examine_user() -> Finding:
    user = os.geteuid()
    if user == 0:
        text = "this command runs as root, which may read and write everything"
        return warning(_CHECK, text, "run this command, and the daemon, as an unprivileged user")
    return ok(_CHECK, f"this command runs as {user_name(user)}")


def user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _examine_missing_copy(log_dir: Path) -> Finding:
    parent = next(each for each in log_dir.absolute().parents if each.exists())
    if os.access(parent, os.W_OK | os.X_OK, effective_ids=True):
        return ok(_CHECK, f"{log_dir}: does not exist yet, and can be created")
    text = f"{log_dir}: does not exist, and {user_name(os.geteuid())} may not create it"
    return error(_CHECK, text, f"create it for the daemon's user, or let it write to {parent}")


def _examine_log_dir(log_dir: Path) -> Iterator[Finding]:
    try:
        status = log_dir.stat()
    except OSError as fault:
        text = f"{log_dir}: {fault.strerror or fault}"
        yield error(
            _CHECK, text, "mount the missing volume; use authorizerd format only for new nodes"
        )
        return
    if not stat.S_ISDIR(status.st_mode):
        yield error(_CHECK, f"{log_dir}: not a directory", "correct metadata.log.dir")
        return
    user = os.geteuid()
    # Check the effective ids, as open(2) does; os.access checks the real ones by default.
    if os.statvfs(log_dir).f_flag & os.ST_RDONLY:
        text = f"{log_dir}: its file system is mounted read-only"
        yield error(_CHECK, text, "mount it read-write; if it already is, look for a disk fault")
        return
    if not os.access(log_dir, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        text = f"{log_dir}: {user_name(user)} cannot both read and write it"
        yield error(_CHECK, text, "chown it to the daemon's user")
    elif status.st_mode & stat.S_IWOTH:
        yield error(_CHECK, f"{log_dir}: every user may write to it", f"chmod o-w {log_dir}")
    elif status.st_uid != user:
        text = f"{log_dir}: belongs to {user_name(status.st_uid)}, not to {user_name(user)}"
        yield warning(_CHECK, text, "run this as the daemon's user, or chown the directory")
    else:
        yield ok(_CHECK, f"{log_dir}: readable and writable")
    yield from _examine_log_files(log_dir)


def _examine_log_files(log_dir: Path) -> Iterator[Finding]:
    """Report the first inaccessible file: root may have created one in an accessible directory."""
    partition = log_dir / METADATA_TOPIC_DIRECTORY
    for path in (log_dir / LOCK_NAME, partition, *sorted(partition.glob("*.log"))):
        wanted = os.R_OK | os.W_OK | (os.X_OK if path == partition else 0)
        is_there = os.access(path, os.F_OK, effective_ids=True)
        if is_there and not os.access(path, wanted, effective_ids=True):
            text = f"{path}: {user_name(os.geteuid())} cannot both read and write it"
            yield error(_CHECK, text, f"chown -R {log_dir} to the daemon's user")
            return


def _examine_password_file(config: Path) -> Finding:
    """Check the mode of the configuration's file, which contains passwords or private keys."""
    mode = config.stat().st_mode
    if mode & stat.S_IRWXO:
        text = f"{config}: contains passwords or keys, and every user has access"
        return error(_CHECK, text, f"chmod o-rwx {config}, and replace them")
    return ok(_CHECK, f"{config}: only its owner and group have access")


def _examine_audit_log(path: Path) -> Finding:
    """Check the audit log without opening it, so that a missing file is not created."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.exists():
            text = f"{path}: the directory {path.parent} does not exist"
            return error(_CHECK, text, "create it, or correct authorizerd.audit.log")
        if os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            return ok(_CHECK, f"{path}: does not exist yet, and can be created")
        text = f"{path}: does not exist, and {user_name(os.geteuid())} may not create it"
        return error(_CHECK, text, f"let the daemon's user write to {path.parent}")
    except OSError as fault:
        return error(_CHECK, f"{path}: {fault.strerror or fault}", "correct authorizerd.audit.log")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return error(_CHECK, f"{path}: not a file", "correct authorizerd.audit.log")
    # The daemon reads the end of a file to find an unfinished line, but does not read from a pipe.
    wanted = os.R_OK | os.W_OK if stat.S_ISREG(mode) else os.W_OK
    if not os.access(path, wanted, effective_ids=True):
        text = f"{path}: {user_name(os.geteuid())} may not write to it"
        return error(_CHECK, text, "chown it to the daemon's user")
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        return error(_CHECK, f"{path}: every user may write to it", f"chmod o-w {path}")
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        text = f"{path}: every user may read which principals access what"
        return warning(_CHECK, text, f"chmod o-r {path}")
    return ok(_CHECK, f"{path}: writable")


def _examine_secret(path: str) -> Finding:
    try:
        read_secret(path)
    except StartError as fault:
        return error(_CHECK, str(fault), "correct or replace the file")
    return ok(_CHECK, f"{path}: the secret is usable")


def _examine_tokens(path: str) -> Finding:
    try:
        tokens = read_tokens(path)
    except (StartError, ConfigurationError) as fault:
        return error(_CHECK, str(fault), "correct the file; authorizerd token --append adds a line")
    if not tokens:
        advice = f"authorizerd token --principal Type:name --append {path}"
        return warning(_CHECK, f"{path}: contains no token, so every question is refused", advice)
    return ok(_CHECK, f"{path}: tokens: {len(tokens)}")


def _examine_routes(path: str) -> Finding:
    routes = RouteFile(path)
    try:
        routes.prepare_reload()()
    except (StartError, ConfigurationError) as fault:
        return error(_CHECK, str(fault), f"authorizerd routes check {path} shows every fault")
    assert routes.newest is not None
    return ok(_CHECK, f"{path}: {len(routes.newest.table.routes)} routes")


_CALLERS: Final = "callers"
_USER: Final = "User:"
_OWN: Final = "give the caller a principal of its own: authorizerd token --principal NAME"
_FORMER: Final = {
    Operation.CLUSTER_ACTION: (Right.ASK, Right.SEARCH),
    Operation.DESCRIBE: (Right.READ,),
}
"""The callers' rights that these Kafka rights implied in earlier versions of the daemon."""
_FORMER_OPERATIONS: Final = {
    Operation.CLUSTER_ACTION: (Operation.CLUSTER_ACTION, Operation.ALL),
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.ALTER, Operation.ALL),
}


def examine_callers(configuration: Configuration) -> Iterator[Finding]:
    """Examine the principals of the tokens file and of ``authorizerd.callers.*``."""
    if configuration.tokens_file is None and not configuration.has_client_auth:
        return  # every caller is trusted, and none is identified
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
        yield ok(_CALLERS, f"{CALLERS_PREFIX}{right}: {'; '.join(names) or 'super users only'}")


def _read_token_holders(path: str | None) -> frozenset[str]:
    try:
        return frozenset(() if path is None else (each.principal for each in read_tokens(path)))
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
            f"{principal}: holds CLUSTER_ACTION in the cluster, so it can read every topic and act "
            "as anyone there"
        )
        remedy = "remove the ACL once no daemon of version 1.0 needs it"
        yield warning(
            _CALLERS, text, f"{remedy}; {_OWN}" if principal.startswith(_USER) else remedy
        )
    elif is_user and principal.startswith(_USER):
        text = f"{principal}: may be a user of Kafka, so what its ACLs allow is at risk with it"
        yield warning(_CALLERS, text, _OWN)
    for operation in sorted(rights):
        keys = [each.key for each in _FORMER[operation] if principal not in listed[each]]
        if keys:
            text = (
                f"{principal}: {operation.name} in an ACL was the right to use the decision ports"
                f" up to version 1.0; now {' and '.join(keys)} must list it"
            )
            if Operation.DESCRIBE not in rights and principal not in listed[Right.READ]:
                text += f", and {Right.READ.key} for questions about the past"
            yield warning(_CALLERS, text, "list the principal there, if it needs the right")
