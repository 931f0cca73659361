"""The changes of one AlterConfigs request: planned, checked, written, and in force.

**Invariant:** the keystores and truststores that a request changes are read before anything is
written. If one is unusable, nothing of its resource changes. Guarded keys come into force only if
the caller is still a super user then, because a reload may have removed it while it waited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from authorizerd.acl.steps import at_once
from authorizerd.acl.updates import Plan
from authorizerd.actors.published import View
from authorizerd.actors.updates import ClusterPlan
from authorizerd.config.alterations import Changes, Wanted
from authorizerd.config.errors import InvalidValueError
from authorizerd.daemon.kafka.cluster_updates import ClusterUpdates, Results, change_cluster
from authorizerd.daemon.kafka.config_descriptions import invalid_request
from authorizerd.daemon.kafka.config_plan import ConfigPlan
from authorizerd.daemon.settings import Settings
from authorizerd.image.cluster import ClusterImage


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
        """Read the stores that the changes concern. If one is unusable, drop its resource."""
        self.check()
        store_keys = self._settings.store_keys
        stores = {name: value for name, value in self._guarded.items() if name in store_keys}
        if not stores:  # the plan has refused all of them
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
        return await change_cluster(
            self._updates, lambda image: at_once(self._plan(image)), self._wanted, self._on_applied
        )

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
