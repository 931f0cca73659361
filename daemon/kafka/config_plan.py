"""What one request changes in dynamic configs, and what each of its resources is answered.

Invariant: all of a resource is changed or nothing. Whoever may alter configs does not become a
super user by it, nor blinds the audit: guarded keys, and those of a plugged-in authorizer, are for
super users alone.

Source: KIP-133, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

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
    """What only a super user may do."""


class ConfigPlan:
    """One request's changes, resource by resource, each seen by those after it."""

    def __init__(self, image: ClusterImage, settings: Settings, *, is_super_user: bool) -> None:
        self._settings = settings
        self._plugged = settings.plugged
        self._is_super_user = is_super_user
        self._configs = image.configs
        self.changes: list[ConfigChanged] = []
        self.results: dict[str, ApiError | None] = {}
        self.guarded: Changes = {}

    def add(self, name: str, wanted: Wanted) -> None:
        """Plan one resource: all of it, or nothing but its error."""
        before = self._configs.get((BROKER_CONFIGS, name), _NO_VALUES)
        try:
            changes = plan_changes(before, wanted) | _taken_back(wanted, self._settings.layers)
            guarded = self._guarded_of(changes)
            self._check_whole(name, before, changes, guarded)
        except NotSuperUserError as error:
            self.results[name] = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error))
        except (AlterationError, InvalidValueError) as error:
            self.results[name] = ApiError(ErrorCode.INVALID_REQUEST, str(error))
        else:
            self.results[name] = None
            self.guarded |= guarded
            self.changes += [
                ConfigChanged(BROKER_CONFIGS, name, key, value) for key, value in changes.items()
            ]

    def _guarded_of(self, changes: Changes) -> Changes:
        """Return those of ``changes`` that are for super users.

        Raises:
            NotSuperUserError: there are some, and none asks.
        """
        guarded = {key: changes[key] for key in changes if is_guarded(key, self._plugged)}
        if guarded and not self._is_super_user:
            raise NotSuperUserError(f"Only a super user may change {', '.join(sorted(guarded))}")
        return guarded

    def _check_whole(
        self, name: str, before: Map[str, str], changes: Changes, guarded: Changes
    ) -> None:
        """Ask the authorizer, which may refuse what no single key's parser does."""
        after = {**before, **changes}
        values = {key: value for key, value in after.items() if value is not None}
        if name == EVERY_NODE:
            layers = self._settings.with_dynamic(everywhere=values, guarded=guarded)
        else:
            layers = self._settings.with_dynamic(node=values, guarded=guarded)
        self._settings.check(layers)


def _taken_back(wanted: Wanted, layers: Layers) -> Changes:
    """Return the guarded keys that are to obey the file again, whatever the log says of them."""
    removed = wanted.removed or frozenset()
    return {name: None for name in layers.since_reload if name in removed}
