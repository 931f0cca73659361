"""Read a set of ACLs from any source: a log, a checkpoint, a listing, a document, a live server.

**Invariant:** reading a source returns all of its ACLs, or raises ``AclSourceError``. A plan of
``authorizerd acls plan`` is applied only to the ACLs that it was made for, so the result is the
state that the plan describes. A live server's ACLs come from ``authorizerd acls --list`` in a
process of its own, so that this package imports nothing from the daemon.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.releases import Release
from authorizerd.image.errors import ChangeError
from authorizerd.management.formats.catalogue import read_acl_text
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.document import decode_plan
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.state import digest_acls
from authorizerd.metadata.bounded_file import read_file
from authorizerd.metadata.errors import MetadataLogError, PastRangeError
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.acls.log import LogState, find_log, read_log, sort_acls
from authorizerd.replay.errors import AclSourceError
from authorizerd.replay.text import parse_time

CHECKPOINT_SUFFIX: Final = ".checkpoint"
SCHEME: Final = "kafka://"
"""Without an address, the cluster of the profile: see docs/command-line.md."""
PROFILE: Final = "AUTHORIZERD_PROFILE"

# -P: a folder named "authorizerd" in the working directory must not be imported.
_LIST_ACLS: Final = (sys.executable, "-P", "-m", "authorizerd.cli.main", "acls")
_ERROR_HEADING: Final = "Error while executing ACL command: "


def read_acl_source(
    source: str,
    *,
    as_of: str | None = None,
    super_users: Iterable[str] | None = None,
    allow_everyone_if_no_acl_found: bool | None = None,
    command_config: Path | None = None,
    releases: tuple[Release, ...] = tuple(Release),
) -> AclSet:
    """Return the ACLs of ``source``, with the given settings; blocks.

    Args:
        source: a log directory (``__cluster_metadata-0`` or its parent), a ``.checkpoint`` file,
            ``kafka://HOST:PORT``, or any other file, whose text must have one of the formats of
            ``management.formats.catalogue``.
        as_of: the moment of a log: an offset, milliseconds since 1970, or an ISO 8601 time; None
            for its end. A time without a zone is in UTC.
        super_users: principals, each ``Type:name``; None if they are unknown.
        allow_everyone_if_no_acl_found: None if it is unknown.
        command_config: a properties file for a ``kafka://`` connection.
        releases: the Kafka releases that may judge.

    Raises:
        AclSourceError: the source does not exist, is damaged, or does not reach ``as_of``.
    """
    state = _read(source, as_of, command_config)
    return AclSet(
        source=f"{source} of the profile {os.environ[PROFILE]}" if source == SCHEME else source,
        acls=state.acls,
        digest=digest_of(dated.acl for dated in state.acls),
        offset=state.offset,
        stamped_ms=state.stamped_ms,
        super_users=None if super_users is None else tuple(sorted(set(super_users))),
        allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
        releases=releases,
    )


def _read(source: str, as_of: str | None, command_config: Path | None) -> LogState:
    path = Path(source).absolute()
    is_live = source.startswith(SCHEME)
    is_log = not is_live and path.is_dir()
    if as_of is not None and not is_log:
        raise AclSourceError(source, "--as-of requires the directory of a metadata log")
    try:
        if is_live:
            return _parse(source, list_acls(source, command_config), "")
        if is_log or path.suffix == CHECKPOINT_SUFFIX:
            return read_log(find_log(path), None if as_of is None else parse_moment(as_of))
        return _parse(source, read_file(path).decode("utf-8-sig"), path.suffix)
    except AclTextError as error:
        raise AclSourceError(source, error.reason, error.place) from error
    except UnicodeDecodeError as error:
        raise AclSourceError(source, "not valid UTF-8", f"byte {error.start}") from error
    except (InvalidAsOfError, PastRangeError) as error:
        raise AclSourceError(source, str(error), "as of") from error
    except (MetadataLogError, ChangeError) as error:
        # AclSourceError names the source, so leave it out of the reason.
        raise AclSourceError(source, str(error).removeprefix(f"{path}: ")) from error
    except OSError as error:
        # In a log, the text of the error names the file.
        raise AclSourceError(
            source, str(error) if is_log else error.strerror or str(error)
        ) from error


def parse_moment(text: str) -> AsOf:
    """Return the offset or the time that ``text`` names.

    Raises:
        InvalidAsOfError: ``text`` is neither.
    """
    try:
        return parse_as_of(text)
    except InvalidAsOfError:
        # Unlike other commands, those of replay accept times as they appear in Kafka's logs.
        with suppress(ValueError, OverflowError):
            return AsOf(time_ms=parse_time(text))
        raise


def _parse(source: str, text: str, suffix: str) -> LogState:
    read = read_acl_text(text, suffix)
    for loss in read.losses:
        # A report cannot show warnings, so it must not be based on only part of the text.
        if loss.acl is None:
            raise AclSourceError(source, f"the file grants what ACLs cannot: {loss}")
    return LogState(sort_acls(map(DatedAcl, read.acls)))


def list_acls(
    source: str, command_config: Path | None, *, command: tuple[str, ...] = _LIST_ACLS
) -> str:
    """Return the listing of ``kafka://HOST:PORT[,HOST:PORT…]``; blocks for the command's own time.

    Args:
        source: ``kafka://`` alone for the cluster of the profile, which the command reads.
        command_config: a properties file for the connection, as for ``acls --command-config``.

    Raises:
        AclSourceError: the address is malformed or missing, or the command failed.
        UnicodeDecodeError: the listing is not UTF-8.
    """
    servers = source.removeprefix(SCHEME)
    is_of_profile = source == SCHEME and command_config is None and bool(os.environ.get(PROFILE))
    if not (servers or is_of_profile) or any(character in servers for character in "/?#@ "):
        reason = f"expected an address of the form kafka://HOST:PORT, or a profile in {PROFILE}"
        raise AclSourceError(source, reason)
    words = [*command, *(() if is_of_profile else ("--bootstrap-server", servers)), "--list"]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        listing = done.stdout.decode(errors="replace").splitlines()
        errors = [line.strip() for line in listing if line.startswith(_ERROR_HEADING)]
        errors += filter(None, map(str.strip, done.stderr.decode(errors="replace").splitlines()))
        errors += [f"listing the ACLs failed with exit code {done.returncode}"]
        raise AclSourceError(source, errors[0].removeprefix(_ERROR_HEADING))
    return done.stdout.decode()


def apply_plan(path: Path, present: AclSet) -> tuple[AclSet, AclSet]:
    """Return the ACLs after the plan, and those before it, with the settings of the plan.

    Raises:
        AclSourceError: the file is not a plan, or the plan was made for other ACLs.
    """
    try:
        plan = decode_plan(read_file(path))
    except OSError as error:
        raise AclSourceError(str(path), error.strerror or str(error)) from error
    except PlanError as error:
        raise AclSourceError(str(path), error.reason, error.place) from error
    acls = list(dict.fromkeys(dated.acl for dated in present.acls))
    if digest_acls(acls) != plan.made_for.digest:
        raise AclSourceError(
            present.source,
            f"expected the {plan.made_for.acls:,} ACLs that {path} was made for, found "
            f"{len(acls):,} different ones: make the plan again",
        )
    before = replace(
        present,
        super_users=plan.settings.super_users,
        allow_everyone_if_no_acl_found=plan.settings.allow_everyone,
    )
    deleted = set(plan.changes.deleted)
    kept = [acl for acl in acls if acl not in deleted]
    after = before.with_acls([*kept, *plan.changes.created], f"{present.source}, after {path}")
    return after, before
