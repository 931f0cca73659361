"""The permissions of the znodes that an export creates; see ``permissions``."""

from __future__ import annotations

from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.options import OPEN_FLAG
from authorizerd.cli.zookeeper.permissions import (
    HiddenOwnerError,
    OpenZnodeError,
    Permission,
    choose_permissions,
)
from authorizerd.cli.zookeeper.session import Session


class NewZnodes:
    """Chooses permissions, and reads those of each parent once."""

    def __init__(self, session: Session, *, accepts_open: bool) -> None:
        self._session = session
        self._accepts_open = accepts_open
        self._below: dict[str, tuple[Permission, ...]] = {}
        self.has_missing_parents = False

    def choose(self, path: str) -> tuple[Permission, ...]:
        """Return the permissions of a new znode. Its parents need not exist yet. Blocks.

        Raises:
            ZooKeeperError: the znode would be writable by everybody, or its owner is unknown.
        """
        parent = path.rpartition("/")[0] or "/"
        if parent not in self._below:
            self._below[parent] = self._choose_below(parent)
        return self._below[parent]

    def _choose_below(self, parent: str) -> tuple[Permission, ...]:
        of_parent = self._session.get_permissions(parent)
        if of_parent is None:
            self.has_missing_parents = True
            of_parent = self.choose(parent)
        try:
            return choose_permissions(
                of_parent,
                is_authenticated=self._session.is_authenticated,
                accepts_open=self._accepts_open,
            )
        except OpenZnodeError:
            raise ZooKeeperError(
                f"{self._session.name}: everybody could change the new znodes below {parent}, and "
                "give themselves any right: log in with the keys of --command-config, as the "
                f"brokers do with zookeeper.set.acl=true; or accept it with {OPEN_FLAG}, if the "
                "brokers' znodes are open too"
            ) from None
        except HiddenOwnerError:
            raise ZooKeeperError(
                f"{self._session.name}: ZooKeeper does not show who owns {parent}: log in as a "
                "user with the permission ADMIN on it"
            ) from None
