"""Keep the ACLs that the flags select."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl
from authorizerd.acl.plan.selector import Selector
from authorizerd.cli.selection_flags import read_entries
from authorizerd.cli.transfer.model import AclsFound


def read_selection(arguments: argparse.Namespace) -> Callable[[Acl], bool] | None:
    """Return whether an ACL is selected; None if all are.

    Invalid flags end the command with exit code 2.
    """
    entries = read_entries(arguments)
    return Selector(entries).manages if entries else None


def select(found: AclsFound, selects: Callable[[Acl], bool] | None) -> AclsFound:
    """Return the selected ACLs, and the losses that concern them or no ACL."""
    if selects is None:
        return found

    def concerns(loss: Loss) -> bool:
        return loss.acl is None or selects(loss.acl)

    return AclsFound(
        tuple(filter(selects, found.acls)), found.ids, tuple(filter(concerns, found.losses))
    )
