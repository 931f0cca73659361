"""Plan, check, write and apply the changes of one AlterConfigs request.

**Invariant:** the keystores and truststores that a request changes are read before anything is
written. If one is unusable, nothing of its resource changes. Guarded keys come into force only if
the caller is still a super user then: a reload may have removed it in the meantime.

**Invariant:** a resource is changed completely or not at all. The right to alter configs is not
enough to become a super user or to disable the audit: only super users can change guarded keys, the
keys of a plugged-in authorizer, and the keys of keystores and truststores. The last kind, which may
be passwords, is never written to the log.

Source: KIP-133, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import trio
from immutables import Map

from authorizerd.acl.updates import Plan
from authorizerd.actors.published import View
from authorizerd.actors.updates import ClusterPlan
from authorizerd.config.alterations import AlterationError, Changes, Wanted, plan_changes
from authorizerd.config.dynamic import Layers, is_guarded
from authorizerd.config.errors import InvalidValueError
from authorizerd.daemon.kafka.cluster_updates import ClusterUpdates, Results, change_cluster
from authorizerd.daemon.kafka.config_descriptions import invalid_request
from authorizerd.daemon.settings import BROKER_CONFIGS, EVERY_NODE, Settings
from authorizerd.image.changes import ConfigChanged
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

_NO_VALUES: Final[Map[str, str]] = Map()


class NotSuperUserError(Exception):
    """The change requires a super user."""


class ConfigPlan:
    """One request's changes, resource by resource; later resources see the earlier changes."""

    def __init__(
        self, image: ClusterImage, settings: Settings, *, is_super_user: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._plugged = settings.plugged
        self._store_keys = settings.store_keys
        self._is_super_user = is_super_user
        self._configs = image.configs
        self.changes: list[ConfigChanged] = []
        self.results: dict[str, ApiError | None] = {}
        self.guarded: Changes = {}

    def add(self, name: str, wanted: Wanted) -> None:
        """Plan all changes of one resource, or plan none and keep the error as its result."""
        before = self._configs.get((BROKER_CONFIGS, name), _NO_VALUES)
        try:
            changes = plan_changes(before, wanted) | _find_restored(wanted, self._settings.layers)
            guarded = self._guarded_of(changes)
            self._check_level(name, changes)
            self._check_whole(name, before, changes, guarded)
        except NotSuperUserError as error:
            self.results[name] = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error))
        except (AlterationError, InvalidValueError) as error:
            self.results[name] = ApiError(ErrorCode.INVALID_REQUEST, str(error))
        else:
            self.results[name] = None
            self.guarded |= guarded
            self.changes += [
                ConfigChanged(BROKER_CONFIGS, name, key, value)
                for key, value in changes.items()
                if key not in self._store_keys or (value is None and key in before)
            ]

    def _guarded_of(self, changes: Changes) -> Changes:
        """Return the changes of guarded keys.

        Raises:
            NotSuperUserError: there are such changes, and the caller is not a super user.
        """
        guarded = {key: changes[key] for key in changes if is_guarded(key, self._plugged)}
        if guarded and not self._is_super_user():
            raise NotSuperUserError(f"Only a super user may change {', '.join(sorted(guarded))}")
        return guarded

    def _check_level(self, name: str, changes: Changes) -> None:
        """Reject keys that belong to one node's ports in a request for every node.

        Raises:
            AlterationError: the request has such keys.
        """
        of_ports = sorted(self._store_keys & changes.keys())
        if name == EVERY_NODE and of_ports:
            raise AlterationError(
                "Cannot update these configs at default cluster level, broker id must be"
                f" specified: [{', '.join(of_ports)}]"
            )

    def _check_whole(
        self, name: str, before: Map[str, str], changes: Changes, guarded: Changes
    ) -> None:
        """Check all values together: the authorizer may reject a combination of valid values."""
        after = {**before, **changes}
        values = {key: value for key, value in after.items() if value is not None}
        if name == EVERY_NODE:
            layers = self._settings.with_dynamic(everywhere=values, guarded=guarded)
        else:
            layers = self._settings.with_dynamic(node=values, guarded=guarded)
        self._settings.check(layers)


def _find_restored(wanted: Wanted, layers: Layers) -> Changes:
    """Return the removals of guarded keys that were set since the file was read.

    Afterwards, the file's values apply again.
    """
    removed = wanted.removed or frozenset()
    return {name: None for name in layers.since_reload if name in removed}


class ConfigChange:
    """The changes that a request wants, by the name of the resource.

    Args:
        wanted: the resources without an error so far.
        is_super_user: returns True if the caller may change guarded keys now.
    """

    def __init__(
        self,
        wanted: Mapping[str, Wanted],
        settings: Settings,
        image: View[ClusterImage],
        updates: ClusterUpdates,
        *,
        is_super_user: Callable[[], bool],
    ) -> None:
        self._wanted = wanted
        self._settings = settings
        self._image = image
        self._updates = updates
        self._is_super_user = is_super_user
        self._guarded: Changes = {}
        self._apply_stores: Callable[[], None] | None = None

    def check(self) -> Results:
        """Return each resource's error, by its name, and change nothing."""
        return self._plan(self._image.newest).result

    async def make(self, *, validate_only: bool) -> Results:
        """Make the changes; return each resource's error, by its name.

        Return once all of them are durable and in force. New handshakes then use changed stores.

        Args:
            validate_only: True to read and check everything, but change nothing.
        """
        store_keys = self._settings.store_keys
        if all(store_keys.isdisjoint(each.keys) for each in self._wanted.values()):
            return await self._make(validate_only=validate_only)
        async with self._settings.changing:
            failed = await self._read_stores()
            # Cancellation would release the lock early: a later reading could then apply first.
            with trio.CancelScope(shield=True):
                made = await self._make(validate_only=validate_only)
        return {**made, **failed}

    async def _read_stores(self) -> Results:
        """Read the stores affected by the changes. If one is unusable, drop its resource."""
        self.check()
        store_keys = self._settings.store_keys
        stores = {name: value for name, value in self._guarded.items() if name in store_keys}
        if not stores:  # the plan has rejected all of them
            return {}
        try:
            self._apply_stores = await self._settings.prepare_stores(stores)
        except InvalidValueError as error:
            node = str(self._settings.node_id)  # only this node's resource may have such keys
            self._wanted = {name: each for name, each in self._wanted.items() if name != node}
            return {node: invalid_request(str(error))}
        return {}

    async def _make(self, *, validate_only: bool) -> Results:
        if validate_only or not self._wanted:
            return self.check()
        return await change_cluster(self._updates, self._plan, self._wanted, self._on_applied)

    def _plan(self, image: ClusterImage) -> ClusterPlan[Results]:
        planning = ConfigPlan(image, self._settings, is_super_user=self._is_super_user)
        for name, each in self._wanted.items():
            planning.add(name, each)
        self._guarded = planning.guarded
        return Plan(tuple(planning.changes), planning.results)

    def _on_applied(self) -> None:
        self._settings.refresh()
        if self._guarded and not self._is_super_user():
            return  # a reload has reset the guarded keys since the change was planned
        self._settings.set_guarded(self._guarded)
        # The image may have changed since `check`, so the final plan may refuse these changes.
        if self._apply_stores and not self._settings.store_keys.isdisjoint(self._guarded):
            self._apply_stores()
