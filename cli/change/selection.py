"""Read what a plan manages: by flags, or else by the files of desired ACLs, or else everything."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import msgspec

from authorizerd.acl.formats.model import AclsRead, Scope
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.plan.names import has_known_codes
from authorizerd.acl.plan.selector import Managed, Selector, manage_one
from authorizerd.cli.selection_flags import read_entries


def read_selector(arguments: argparse.Namespace, files: Iterable[AclsRead]) -> Selector:
    """Return what the plan manages. Invalid flags end the command with exit code 2.

    Raises:
        PlanError: the files manage nothing.
    """
    entries = read_entries(arguments)
    return Selector(entries) if entries else _select_by_files(files)


def _select_by_files(files: Iterable[AclsRead]) -> Selector:
    """Return what all files together manage: everything, if one of them does.

    Raises:
        PlanError: the files manage nothing.
    """
    entries: list[Managed] = []
    for each in files:
        if each.scope is None:
            return Selector(None)
        entries += _entries_of(each.scope)
    if not entries:
        raise PlanError(
            "",
            "the desired files manage no ACLs: say by a flag, such as --principal, what to manage",
        )
    return Selector(entries)


def _entries_of(scope: Scope) -> Iterator[Managed]:
    yield from scope.entries
    for principal in sorted(scope.principals):
        yield Managed(principal=principal)
    for acl in sorted(scope.acls, key=msgspec.structs.astuple):
        if has_known_codes(acl):  # a plan touches no others
            yield manage_one(acl)
