"""ZooKeeper as a source and a target of ``acls import`` and ``acls export``.

kazoo is imported when a session is opened: other commands do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.output import warn
from authorizerd.cli.program.ending import saying
from authorizerd.cli.transfer.model import AclsFound, Draft, Written
from authorizerd.cli.zookeeper.errors import INSTALL_COMMAND, ZooKeeperError
from authorizerd.cli.zookeeper.options import WriteOptions
from authorizerd.cli.zookeeper.settings import (
    FLAG,
    Ensemble,
    ZooKeeperSettings,
    parse_address,
    read_settings,
)
from authorizerd.management.zookeeper.export import find_lost_denials

if TYPE_CHECKING:
    from ssl import SSLContext

    from authorizerd.cli.zookeeper.session import Session
    from authorizerd.cli.zookeeper.writing import AclWriter


class ZooKeeperSource:
    """The ACLs that AclAuthorizer keeps in ZooKeeper."""

    def __init__(self, address: str, config: Path | None, name: str) -> None:
        self._ensemble = parse_address(address)
        self._config = config
        self.name = name

    def read(self) -> AclsFound:
        with _open(self._ensemble, self._config) as session:
            from authorizerd.cli.zookeeper.reading import read_all, warn_of_owner

            warn_of_owner(session, warn)
            return AclsFound(read_all(session))


class ZooKeeperTarget:
    """Adds ACLs to those that AclAuthorizer keeps in ZooKeeper, with change events."""

    kind = "ZooKeeper"
    is_complete = False
    is_standard_output = False

    def __init__(self, address: str, config: Path | None, name: str, options: WriteOptions) -> None:
        self._ensemble = parse_address(address)
        self._config = config
        self._options = options
        self.name = name

    @contextmanager
    def open(self) -> Iterator[_OpenZooKeeper]:
        with _open(self._ensemble, self._config) as session:
            from authorizerd.cli.zookeeper.writing import AclWriter

            yield _OpenZooKeeper(AclWriter(session, self._options), self.name)


class _OpenZooKeeper:
    """A cluster's znodes. They cannot be locked: each change names the version that it follows."""

    def __init__(self, writer: AclWriter, name: str) -> None:
        self._writer = writer
        self._name = name

    def draft(self, found: AclsFound) -> Draft:
        return self._writer.find_missing(found.acls)

    def write(self, draft: Draft, found: AclsFound) -> Written:
        """Write ``draft``.

        Raises:
            ZooKeeperError: an ACL that denies would be lost, so that nothing is written.
        """
        denials = find_lost_denials(draft.losses)
        if denials:
            raise ZooKeeperError(
                f"{self._name}: nothing was written: {count_of(len(denials), 'ACL')} that must "
                "deny would be lost, so that more would be allowed. This is never accepted: "
                f"choose other ACLs, or remove these from the source. The first is {denials[0]}"
            )
        if not draft.new:
            return Written(count=0)
        with saying(lambda: self._writer.describe_certain(len(draft.new))):
            added = self._writer.add_all(draft.new)
        events = count_of(added.patterns, "change event")
        notes = () if added.failure else (f"notified the brokers by {events}",)
        return Written(count=added.count, notes=notes, failure=added.failure)


def _open(ensemble: Ensemble, config: Path | None) -> AbstractContextManager[Session]:
    settings = read_settings(config)
    try:
        from authorizerd.cli.zookeeper.session import open_session
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise ZooKeeperError(
            f"ZooKeeper needs the Python package kazoo: run {INSTALL_COMMAND}"
        ) from None
    return open_session(ensemble, settings, _new_context(settings))


def _new_context(settings: ZooKeeperSettings) -> SSLContext | None:
    """Return the context for TLS; None without TLS."""
    if settings.tls is None:
        return None
    from authorizerd.tls.context import new_client_context
    from authorizerd.tls.errors import StoreError
    from authorizerd.tls.material import read_material

    try:
        return new_client_context(settings.tls, read_material(settings.tls))
    except StoreError as error:
        raise ZooKeeperError(f"{FLAG}: {error}") from None
