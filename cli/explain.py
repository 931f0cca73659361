"""``authorizerd explain``: one decision from a log or checkpoint, and the rule behind it.

**Invariant:** the settings that the decision depends on are printed with their origin, because a
daemon with other settings may decide differently.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from authorizerd.acl.audit import audit_message
from authorizerd.acl.decision import AuthorizerSettings, Decision, explain
from authorizerd.acl.hosts import host_address
from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import CLUSTER_NAME, OPERATIONS, Acl, Operation, Question, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.configuration_file import add_config_arguments, read_configuration
from authorizerd.cli.offline import RESOURCE_FLAGS, read_snapshot
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.values import STANDARD_AUTHORIZER, boolean, super_users
from authorizerd.daemon.errors import StartError

EXIT_DENIED: Final = 3

_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Make ``parser`` parse and run this command."""
    parser.set_defaults(run=_run, refuse=parser.error)
    parser.add_argument(
        "--log-dir",
        type=Path,
        help="a log directory, which contains __cluster_metadata-0, or a .checkpoint file "
        "(default: the log directory that --config names)",
    )
    add_config_arguments(parser, required=False)
    parser.add_argument("--principal", required=True, help="Type:name, for example User:alice")
    parser.add_argument("--host", help="the client's IP address (default: unknown)")
    parser.add_argument(
        "--operation", required=True, help="a Kafka operation, such as Read; letter case is ignored"
    )
    for flag in RESOURCE_FLAGS:
        parser.add_argument(
            f"--{flag}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"the {flag.replace('-', ' ')} to ask about",
        )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help=f"ask about the cluster (the resource {CLUSTER_NAME})",
    )
    parser.add_argument(
        "--super-users",
        metavar="LIST",
        help="super users as Type:name;Type:name, instead of those in --config",
    )
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        action="store_true",
        help="decide as if allow.everyone.if.no.acl.found were true",
    )


def _run(arguments: argparse.Namespace) -> int:
    """Print the decision; return the exit code.

    Raises:
        StartError, ConfigurationError: the configuration is unusable.
        MetadataLogError, ChangeError: see ``read_snapshot``.
        InvalidQuestionError: the principal is ``User:*``.
    """
    question = _question(arguments)
    refuse: Callable[[str], NoReturn] = arguments.refuse
    configuration = None
    if arguments.config is not None:
        configuration = read_configuration(arguments.config, arguments.override)
        _check_authorizer(configuration)
    elif arguments.override:
        refuse("--override: expected --config as well")
    if arguments.log_dir is None and configuration is None:
        refuse("expected --log-dir DIR, or --config FILE, whose log directory is read")
    log_dir = arguments.log_dir or Path(configuration.metadata_log_dir if configuration else "")
    used = _settings(arguments, configuration)
    settings = _authorizer_settings(used, refuse)
    snapshot = read_snapshot(log_dir)
    decision = explain(snapshot, settings, question)
    for line in _describe_decision(snapshot, question, decision):
        print(line)
    print(_describe_settings(used))
    return 0 if decision.allowed else EXIT_DENIED


def _describe_decision(
    snapshot: AclSnapshot, question: Question, decision: Decision
) -> Iterator[str]:
    """Yield the decision with its rule, every ACL that matches, and the offset."""
    yield audit_message(question, decision, "explain")
    for acl in sorted(matching_acls(snapshot, question), key=_by_permission):
        yield f"  {acl}"
    yield f"at log offset {snapshot.offset}, with {len(snapshot.acls)} ACLs"


def _by_permission(acl: Acl) -> tuple[int, str]:
    return acl.permission_type, str(acl)


def _check_authorizer(configuration: Configuration) -> None:
    name = configuration.authorizer_class_name
    if name != STANDARD_AUTHORIZER:
        reason = f"expected {STANDARD_AUTHORIZER}, found {name or 'no class'}"
        raise StartError(f"authorizer.class.name: {reason}: explain supports only the built-in one")


class _Setting(NamedTuple):
    """A setting's text and its origin; ``origin`` is None if Kafka's default is assumed."""

    key: str
    text: str
    origin: str | None


def _settings(
    arguments: argparse.Namespace, configuration: Configuration | None
) -> tuple[_Setting, _Setting]:
    """Return each setting from its flag, or from the configuration, or else Kafka's default."""
    values = {} if configuration is None else configuration.file_values
    origin = None if configuration is None else str(arguments.config)
    admins = _Setting(_SUPER_USERS, values.get(_SUPER_USERS, ""), origin)
    everyone = _Setting(_ALLOW_EVERYONE, values.get(_ALLOW_EVERYONE, "false"), origin)
    if arguments.super_users is not None:
        admins = _Setting(_SUPER_USERS, arguments.super_users, "--super-users")
    if arguments.allow_everyone_if_no_acl_found:
        everyone = _Setting(_ALLOW_EVERYONE, "true", "--allow-everyone-if-no-acl-found")
    return admins, everyone


def _authorizer_settings(
    used: tuple[_Setting, _Setting], refuse: Callable[[str], NoReturn]
) -> AuthorizerSettings:
    admins, everyone = used
    try:
        return AuthorizerSettings(
            super_users=super_users(admins.text),
            allow_everyone_if_no_acl_found=boolean(everyone.text),
        )
    except InvalidValueError as error:
        # Only the flag can be invalid, since reading the configuration has validated the rest.
        refuse(f"--super-users: {error}")


def _describe_settings(used: tuple[_Setting, _Setting]) -> str:
    shown = ", ".join(f"{each.key}={each.text} ({each.origin or 'assumed'})" for each in used)
    is_assumed = any(each.origin is None for each in used)
    advice = "; pass --config FILE to use the daemon's settings" if is_assumed else ""
    return f"with {shown}{advice}"


def _question(arguments: argparse.Namespace) -> Question:
    refuse: Callable[[str], NoReturn] = arguments.refuse
    resources = _resources(arguments)
    if len(resources) != 1:
        flags = ", ".join(f"--{flag}" for flag in (*RESOURCE_FLAGS, "cluster"))
        refuse(f"expected exactly one resource, found {len(resources)}: use one of {flags}")
    principal_type, _, name = arguments.principal.partition(":")
    if not (principal_type and name):
        found = repr(arguments.principal)
        refuse(f"--principal: expected Type:name, for example User:alice, found {found}")
    host = None if arguments.host is None else host_address(arguments.host)
    if arguments.host is not None and host is None:
        refuse(f"--host: expected an IP address, found {arguments.host!r}")
    operation = Operation.named(ascii_upper(arguments.operation).replace("-", "_"))
    if operation is None or operation not in OPERATIONS:
        known = ", ".join(Operation(code).name for code in OPERATIONS)
        refuse(f"--operation: unknown operation {arguments.operation!r}: expected one of {known}")
    resource_type, name = resources[0]
    return Question(arguments.principal, host, operation, resource_type, name)


def _resources(arguments: argparse.Namespace) -> list[tuple[ResourceType, str]]:
    """Return the resources that the flags name; a flag may name several, joined by commas."""
    named = [
        (resource_type, name.strip())
        for flag, resource_type in RESOURCE_FLAGS.items()
        for names in getattr(arguments, flag.replace("-", "_"))
        for name in names.split(",")
    ]
    return named + [(ResourceType.CLUSTER, CLUSTER_NAME)] * arguments.cluster
