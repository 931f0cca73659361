"""The flags that choose some of the ACLs, with the meaning that they have in kafka-acls --list."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from authorizerd.acl.filters import accepts
from authorizerd.acl.formats.model import Loss
from authorizerd.acl.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.model import CLUSTER_NAME, Acl, AclFilter, PatternType, ResourceType
from authorizerd.cli.transfer.model import AclsFound

PATTERN_TYPES: Final = ("LITERAL", "PREFIXED", "ANY", "MATCH")


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags. ``read_selection`` reads them."""
    group = parser.add_argument_group("which ACLs (default: all)")
    group.add_argument(
        "--principal",
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="only the ACLs of this principal; may be repeated",
    )
    for flag in RESOURCE_FLAGS:
        group.add_argument(
            f"--{flag}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"only the ACLs of this {flag.replace('-', ' ')}; may be repeated",
        )
    group.add_argument("--cluster", action="store_true", help="only the ACLs of the cluster")
    group.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=PATTERN_TYPES,
        metavar="TYPE",
        help="how the names are compared: LITERAL (the default), PREFIXED, ANY (this name, with "
        "either type) or MATCH (every pattern that matches such a resource)",
    )


def read_selection(arguments: argparse.Namespace) -> Callable[[Acl], bool] | None:
    """Return whether an ACL is selected; None if all are."""
    pattern_type = PatternType[arguments.resource_pattern_type or "LITERAL"]
    filters = [
        AclFilter(resource_type=kind, resource_name=name, pattern_type=pattern_type)
        for flag, kind in RESOURCE_FLAGS.items()
        for name in getattr(arguments, flag.replace("-", "_"))
    ]
    if arguments.cluster:
        filters.append(AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, pattern_type))
    principals = frozenset(arguments.principal)
    if not filters and not principals:
        if arguments.resource_pattern_type is not None:
            arguments.refuse("--resource-pattern-type: expected the name of a resource as well")
        return None

    def selects(acl: Acl) -> bool:
        is_named = not filters or any(accepts(each, acl) for each in filters)
        return is_named and (not principals or acl.principal in principals)

    return selects


def select(found: AclsFound, selects: Callable[[Acl], bool] | None) -> AclsFound:
    """Return the selected ACLs, and the losses that concern them or no ACL."""
    if selects is None:
        return found

    def concerns(loss: Loss) -> bool:
        return loss.acl is None or selects(loss.acl)

    return AclsFound(
        tuple(filter(selects, found.acls)), found.ids, tuple(filter(concerns, found.losses))
    )
