"""What one request changes in dynamic configs, and what each of its resources is answered.

Law: all of a resource is changed or nothing. Whoever may alter configs does not become a super user
by it: the keys that say who may do everything are for super users alone.

Source: KIP-133, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from immutables import Map

from acl.cluster import ClusterImage
from acl.cluster_changes import ConfigChanged
from config.alterations import (
    Alteration,
    AlterationError,
    Changes,
    InvalidConfigError,
    plan_incremental,
    plan_replacement,
)
from config.dynamic import GUARDED, Layers
from config.errors import InvalidValueError
from daemon.settings import BROKER_CONFIGS, EVERY_NODE, Settings
from protocol.kafka_errors import ApiError, ErrorCode

_NO_VALUES: Final[Map[str, str]] = Map()


class NotSuperUserError(Exception):
    """What only a super user may do."""


class ConfigPlan:
    """One request's changes, resource by resource, each seen by those after it."""

    def __init__(self, image: ClusterImage, settings: Settings, *, is_super_user: bool) -> None:
        self._settings = settings
        self._is_super_user = is_super_user
        self._configs = image.configs
        self.changes: list[ConfigChanged] = []
        self.results: dict[str, ApiError | None] = {}
        self.guarded: Changes = {}

    def add(self, name: str, alterations: Sequence[Alteration], *, is_whole: bool) -> None:
        """Plan one resource: all of it, or nothing but its error.

        Args:
            is_whole: ``alterations`` are all that is to be set of the resource.
        """
        before = self._configs.get((BROKER_CONFIGS, name), _NO_VALUES)
        try:
            if is_whole:
                changes = plan_replacement(before, {a.name: a.value or "" for a in alterations})
            else:
                changes = plan_incremental(before, alterations)
                changes |= _taken_back(alterations, self._settings.layers)
            self._check_guarded(changes)
            self._check_whole(name, before, changes)
        except InvalidConfigError as error:
            self.results[name] = ApiError(ErrorCode.INVALID_CONFIG, str(error))
        except NotSuperUserError as error:
            self.results[name] = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error))
        except (AlterationError, InvalidValueError) as error:
            self.results[name] = ApiError(ErrorCode.INVALID_REQUEST, str(error))
        else:
            self.results[name] = None
            self.guarded |= {key: changes[key] for key in changes.keys() & GUARDED}
            self.changes += [
                ConfigChanged(BROKER_CONFIGS, name, key, value) for key, value in changes.items()
            ]

    def _check_guarded(self, changes: Changes) -> None:
        guarded = sorted(changes.keys() & GUARDED)
        if guarded and not self._is_super_user:
            raise NotSuperUserError(f"Only a super user may change {', '.join(guarded)}")

    def _check_whole(self, name: str, before: Map[str, str], changes: Changes) -> None:
        """Ask the authorizer, which may refuse what no single key's parser does."""
        after = {**before, **changes}
        values = {key: value for key, value in after.items() if value is not None}
        guarded = {key: changes[key] for key in changes.keys() & GUARDED}
        if name == EVERY_NODE:
            layers = self._settings.with_dynamic(everywhere=values, guarded=guarded)
        else:
            layers = self._settings.with_dynamic(node=values, guarded=guarded)
        self._settings.check(layers)


def _taken_back(alterations: Sequence[Alteration], layers: Layers) -> Changes:
    """Return the guarded keys that are to obey the file again, whatever the log says of them."""
    return {
        alteration.name: None
        for alteration in alterations
        if alteration.value is None and alteration.name in layers.since_reload
    }
