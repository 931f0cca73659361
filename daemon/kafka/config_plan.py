"""The changes that one request makes to dynamic configs, and the result for each resource.

**Invariant:** a resource is changed completely or not at all. The right to alter configs is not
enough to become a super user or to disable the audit: only super users can change guarded keys, the
keys of a plugged-in authorizer, and the keys of keystores and truststores. The latter, which may be
passwords, are never written to the log.

Source: KIP-133, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from immutables import Map

from authorizerd.config.alterations import AlterationError, Changes, Wanted, plan_changes
from authorizerd.config.dynamic import Layers, is_guarded
from authorizerd.config.errors import InvalidValueError
from authorizerd.daemon.settings import BROKER_CONFIGS, EVERY_NODE, Settings
from authorizerd.image.changes import ConfigChanged
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

_NO_VALUES: Final[Map[str, str]] = Map()


class NotSuperUserError(Exception):
    """A change that requires a super user."""


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

    The file's values then apply again.
    """
    removed = wanted.removed or frozenset()
    return {name: None for name in layers.since_reload if name in removed}
