"""The settings in force: from the file, and those set by clients while the daemon runs.

**Invariant:** only this module changes settings, all at once, between requests. An invalid
configuration changes nothing and is logged. Values in the log for guarded keys, or for keys that
need a restart, are ignored. All values in a followed cluster's log are ignored: they are meant for
its brokers.

Source: KIP-226; Kafka 4.3 DynamicBrokerConfig.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import trio
from immutables import Map

from authorizerd.actors.authorizer import Authorizer
from authorizerd.actors.published import View
from authorizerd.config.alterations import Changes
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import (
    Layers,
    is_guarded,
    may_change,
    select_plugged_keys,
    split_valid,
)
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.follow.access import list_controller_tls_keys
from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.config.hints import find_file_hints
from authorizerd.config.keys import is_reloadable
from authorizerd.config.values import trim
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.image.cluster import ClusterImage

BROKER_CONFIGS: Final = 4
"""The type of a node's dynamic configs: Kafka's ConfigResource.Type.BROKER."""
EVERY_NODE: Final = ""

READS_MAX: Final = 8
"""How many reloads may read files at once: the current one, and cancelled ones that still hang."""

STORES_SECONDS_MAX: Final = 10.0
"""Time limit for reading the keystores and truststores that a waiting client has set."""

PrepareStores = Callable[[Mapping[str, str], frozenset[str]], Callable[[], None]]
"""A function that reads stores; see ``Settings.subscribe_stores``."""

_NO_VALUES: Final[Map[str, str]] = Map()

_logger = logging.getLogger("authorizerd")


@dataclass(slots=True)
class ReloadStatistics:
    """Counters of reloads. ``failing`` is 1 if the last one failed."""

    succeeded: int = 0
    failed: int = 0
    failing: int = 0


class Settings:
    """Combines the file's settings with dynamic configs, and calls subscribers after changes.

    Args:
        image: the image that holds the dynamic configs.
        authorizer: validates new settings, and then receives them.
        standard: the built-in authorizer. It gets new settings even if ``authorizer`` wraps it and
            does not pass them on: a removed super user must not remain one.
        read: reads the configuration again; blocks.
    """

    def __init__(
        self,
        configuration: Configuration,
        image: View[ClusterImage],
        authorizer: Authorizer,
        *,
        standard: Authorizer,
        read: Callable[[], Configuration],
    ) -> None:
        self._configuration = configuration
        self._image = image
        self._authorizer = authorizer
        self._standard = standard
        self._read = read
        self.node_id: Final = configuration.node_id
        self.is_changed_by_file_alone: Final = configuration.follow is not None
        """True if clients cannot set keys, because the daemon follows a cluster."""
        self._layers = Layers(file=configuration.file_values)
        self._texts = self._layers.merge()
        self._in_force = configuration
        self._subscribers: list[Callable[[Configuration], None]] = []
        self._files: list[Callable[[Configuration], Callable[[], None]]] = []
        self._prepare_stores: PrepareStores = lambda values, changed: _apply_nothing
        self.store_keys: frozenset[str] = frozenset()
        """The keys for keystores and truststores of this node's ports, which clients may set."""
        self.changing: Final = trio.Lock()
        """Held while stores are read and applied, so that readings are applied in order."""
        self.reloads: Final = ReloadStatistics()
        self._limiter = trio.CapacityLimiter(READS_MAX)

    @property
    def layers(self) -> Layers:
        """The layers of values that are in force."""
        return self._layers

    @property
    def plugged(self) -> frozenset[str]:
        """The keys, other than the reloadable ones, that can be changed while the daemon runs.

        These are the plugged-in authorizer's own keys, and those of keystores and truststores.
        """
        return select_plugged_keys(self._authorizer.reconfigurable_configs) | self.store_keys

    @property
    def super_users(self) -> frozenset[str]:
        """The super users. Only they may change the list of super users."""
        return self._in_force.super_users

    def subscribe(self, subscriber: Callable[[Configuration], None]) -> None:
        """Call ``subscriber`` with the settings in force, now and after each change.

        Only reloadable settings ever change.
        """
        self._subscribers.append(subscriber)
        subscriber(self._in_force)

    def subscribe_file(self, prepare_reload: Callable[[], Callable[[], None]]) -> None:
        """Reload a file that the configuration names whenever the configuration is reloaded.

        Args:
            prepare_reload: reads the file (blocks), changes nothing, and returns a function that
                applies the new content. Raises ConfigurationError or StartError if the file is
                unusable; then nothing is applied.
        """
        self._files.append(lambda _: prepare_reload())

    def subscribe_configuration(
        self, prepare_reload: Callable[[Configuration], Callable[[], None]]
    ) -> None:
        """Like ``subscribe_file``, but ``prepare_reload`` gets the configuration that was read."""
        self._files.append(prepare_reload)

    def subscribe_stores(self, keys: frozenset[str], prepare: PrepareStores) -> None:
        """Read keystores and truststores again whenever a client sets one of these ``keys``.

        Args:
            prepare: gets all values of the file, overlaid with those that clients have set since,
                and the changed keys. It reads the stores of the affected ports (blocks), and
                returns a function that applies them. Raises ConfigurationError or StartError if one
                is unusable.
        """
        self.store_keys = keys
        self._prepare_stores = prepare

    def refresh(self) -> None:
        """Apply the log's dynamic configs, if the log is the daemon's own."""
        configs = Map() if self.is_changed_by_file_alone else self._image.newest.configs
        everywhere = configs.get((BROKER_CONFIGS, EVERY_NODE), _NO_VALUES)
        node = configs.get((BROKER_CONFIGS, str(self.node_id)), _NO_VALUES)
        self._apply(self.with_dynamic(everywhere=everywhere, node=node))

    def with_dynamic(
        self,
        *,
        everywhere: Mapping[str, str] | None = None,
        node: Mapping[str, str] | None = None,
        guarded: Changes | None = None,
    ) -> Layers:
        """Return the layers with these dynamic configs; None leaves a level unchanged.

        Invalid values are ignored: other software may have written the log.
        """
        layers, plugged = self._layers, self.plugged
        # A value of None in ``guarded`` removes the key, so that the file's value applies again.
        since_reload = {**layers.since_reload, **(guarded or {})}
        return Layers(
            file=layers.file,
            everywhere=layers.everywhere
            if everywhere is None
            else _keep_valid(everywhere, plugged),
            node=layers.node if node is None else _keep_valid(node, plugged),
            since_reload={k: value for k, value in since_reload.items() if value is not None},
            plugged=plugged,
        )

    def check(self, layers: Layers) -> None:
        """Check that ``layers`` can be applied.

        Raises:
            InvalidValueError: the authorizer rejects them.
        """
        try:
            self._authorizer.validate_reconfiguration(layers.merge())
        except Exception as error:  # a plugin may raise anything; every error is a rejection
            raise InvalidValueError(str(error)) from error

    def set_guarded(self, changes: Changes) -> None:
        """Apply guarded keys that a client set, until the next reload of the file."""
        if changes:
            self._apply(self.with_dynamic(guarded=changes))

    async def prepare_stores(self, changes: Changes) -> Callable[[], None]:
        """Read the stores that ``changes`` affect, and return a function that applies them.

        The caller holds ``changing`` until they are applied. Cancellation changes nothing, and
        abandons the thread that reads the files.

        Raises:
            InvalidValueError: a store is unusable; the text names its key and file.
        """
        since_reload = self.with_dynamic(guarded=changes).since_reload
        values = {**self._layers.file}
        values |= {name: trim(since_reload[name]) for name in self.store_keys & since_reload.keys()}
        with trio.move_on_after(STORES_SECONDS_MAX):
            try:
                return await run_in_thread(
                    self._prepare_stores,
                    values,
                    frozenset(changes),
                    abandon_on_cancel=True,
                    limiter=self._limiter,
                )
            except ConfigurationError as error:
                raise InvalidValueError(f"{error.key}: {error.reason}") from None
            except StartError as error:
                raise InvalidValueError(str(error)) from None
        names = ", ".join(sorted(changes))
        raise InvalidValueError(f"{names}: reading took more than {STORES_SECONDS_MAX:g} s")

    async def reload(self) -> None:
        """Reload the file and apply its reloadable keys; log the reason if that fails.

        Cancellation changes nothing, and abandons the thread that reads the file.
        """
        async with self.changing:
            await self._reload()

    async def _reload(self) -> None:
        try:
            configuration, files = await run_in_thread(
                self._read_all, abandon_on_cancel=True, limiter=self._limiter
            )
            layers = dataclasses.replace(
                self._layers,
                file=configuration.file_values,
                since_reload={},
                plugged=self.plugged,
            )
            self.check(layers)
        except (ConfigurationError, StartError, InvalidValueError) as error:
            self.refuse_reload(str(error))
            return
        if needs_restart(self._configuration, configuration):
            _logger.warning(
                "a restart is needed for %s", ", ".join(self._keys_that_need_restart(configuration))
            )
        self._apply(layers)
        for apply in files:
            apply()
        self.reloads.succeeded += 1
        self.reloads.failing = 0
        _logger.info("the configuration is reloaded")
        for hint in find_file_hints(configuration):
            _logger.warning("%s", hint)

    def refuse_reload(self, reason: str) -> None:
        """Log and count a rejected reload, which changed nothing."""
        self.reloads.failed += 1
        self.reloads.failing = 1
        _logger.error("the configuration is not reloaded: %s", reason)

    def _read_all(self) -> tuple[Configuration, list[Callable[[], None]]]:
        configuration = self._read()
        return configuration, [prepare(configuration) for prepare in self._files]

    def _keys_that_need_restart(self, configuration: Configuration) -> list[str]:
        """Return the changed keys that need a restart."""
        before, after = self._configuration.file_values, configuration.file_values
        fixed: set[str] = set()
        if _is_controller_tls_changed(self._configuration.follow, configuration.follow):
            # A reload applies TLS keys to ports only, not to connections to controllers.
            fixed = list_controller_tls_keys(before) | list_controller_tls_keys(after)
        return sorted(
            name
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name) and (name in fixed or not is_reloadable(name))
        )

    def _apply(self, layers: Layers) -> None:
        texts = layers.merge()
        self._layers = layers
        if texts == self._texts:
            return
        self._texts = texts
        for authorizer in dict.fromkeys((self._standard, self._authorizer)):
            authorizer.reconfigure(texts)
        self._in_force = self._in_force.reload(texts)
        for subscriber in self._subscribers:
            subscriber(self._in_force)


def _apply_nothing() -> None:
    pass


def needs_restart(before: Configuration, after: Configuration) -> bool:
    """Return True if a setting that a reload does not apply has changed.

    A reload applies TLS settings, but does not switch TLS on or off.
    """
    unchanged = after.with_reloadable(before)
    if before.listener_tls.keys() == after.listener_tls.keys():
        unchanged = dataclasses.replace(unchanged, listener_tls=before.listener_tls)
    if before.http_tls is not None and after.http_tls is not None:
        unchanged = dataclasses.replace(unchanged, http_tls=before.http_tls)
    return unchanged != before


def _is_controller_tls_changed(before: FollowSettings | None, after: FollowSettings | None) -> bool:
    if before is None or after is None or {before.kind, after.kind} != {SourceKind.QUORUM}:
        return False
    return before.tls != after.tls


def _keep_valid(values: Mapping[str, str], plugged: frozenset[str]) -> Mapping[str, str]:
    """Return the valid values of a log's dynamic configs."""
    sound, faults = split_valid(
        {
            name: value
            for name, value in values.items()
            if may_change(name, plugged) and not is_guarded(name, plugged)
        }
    )
    for fault in faults:
        _logger.warning("a dynamic config in the log is ignored: %s", fault)
    return sound
