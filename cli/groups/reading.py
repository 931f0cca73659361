"""Read groups from a file, or from the directory that the file names. Blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.grants.reading import describe_access
from authorizerd.acl.model import Acl
from authorizerd.cli.acl_file import read_text
from authorizerd.management.groups.changes import GovernedChanges
from authorizerd.management.groups.claims import find_sets, read_claims
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.membership import Membership, resolve_groups

if TYPE_CHECKING:
    from authorizerd.management.groups.file import GroupsFile


def read_groups(path: Path) -> GroupsFile:
    """Return the content of a file of groups."""
    # Imported here, because it loads PyYAML, which most plans do not need.
    from authorizerd.management.groups.file import read_groups_file

    try:
        return read_groups_file(read_text(path))
    except GroupsError as error:
        raise GroupsError(f"{path}: {error.place}", error.reason, error.kind) from error


def read_membership(file: GroupsFile, names: Collection[str]) -> Membership:
    """Return the members of these groups.

    Raises:
        GroupsError: they cannot be read as a whole, or one has an error.
    """
    direct = file.groups
    if file.ldap is not None:
        # Imported here, because most groups are in files.
        from authorizerd.cli.groups.directory import read_directory

        direct = read_directory(file.ldap, names)
    return resolve_groups(direct or {}, names, file.may_be_empty)


def describe_governed(governed: GovernedChanges, named: Sequence[str]) -> Iterator[str]:
    """Yield what a reviewer should know about groups.

    Args:
        named: the groups that the desired files name.
    """
    outcome = governed.outcome
    if outcome is None and named:
        yield (
            f"the desired files name {count_of(len(named), 'group')}, such as Group:{named[0]}: "
            "Kafka does not know groups, so without --groups only a client whose principal is "
            "literally this one has this access"
        )
    if outcome is not None and outcome.there_before:
        before = sorted(map(describe_access, outcome.there_before))
        yield (
            f"{count_of(len(before), 'ACL')} that groups give did not come from groups, such as "
            f"{before[0]}: a member who leaves keeps this access"
        )
    for name, count in sorted(governed.kept.items()):
        yield (
            f"kept: {count_of(count, 'ACL')} that the groups of {name} made: only a plan with "
            "--groups and this set removes them"
        )
    if governed.permanent:
        yield (
            f"{count_of(governed.permanent, 'ACL')} that groups made become permanent, because the "
            "desired files have them"
        )


def describe_remade(present: Collection[Acl], removed: Collection[Acl]) -> Iterator[str]:
    """Yield which of the removed ACLs the next plan of groups makes again."""
    sets = find_sets(removed, read_claims(present))
    for name, count in sorted(Counter(chain.from_iterable(sets.values())).items()):
        yield (
            f"{count_of(count, 'ACL')} that the groups of {name} made: its next plan with --groups "
            "makes them again, so change the groups or their desired files first"
        )
