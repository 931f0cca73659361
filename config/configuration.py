"""server.properties as one frozen, validated configuration, with static and reloadable parts.

**Invariant:** the result is valid, also by the rules that concern several keys. If it is not, one
ConfigurationError names all faults, and no key takes effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from authorizerd.acl.audit.filter import AuditFilter, AuditRules
from authorizerd.acl.release_in_force import Evidence
from authorizerd.config import joined_rules, tls_rules
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.follow import rules as follow_rules
from authorizerd.config.follow.settings import FollowSettings
from authorizerd.config.kafka_keys import KAFKA_LIMITS, KAFKA_SETTINGS, KafkaLimits, KafkaSettings
from authorizerd.config.key import select_settings
from authorizerd.config.key_values import KeyValues, read_key_values
from authorizerd.config.keys import CREATION_RATE
from authorizerd.config.own_keys import CALLERS_PREFIX, OWN_SETTINGS, OwnSettings
from authorizerd.config.properties import Property, parse_override, parse_properties
from authorizerd.config.providers import resolve_placeholders
from authorizerd.config.sasl import SaslSettings, read_sasl_listeners
from authorizerd.config.tls import ClientAuth, TlsSettings
from authorizerd.config.values import trim


@dataclass(frozen=True, kw_only=True)
class Configuration(KafkaSettings, KafkaLimits, OwnSettings):
    """All settings: the keys with a field, and values that rules derive from the other keys.

    ``follow`` says how to follow a cluster; it is None if the daemon owns its log.
    ``sasl_listeners`` has the settings of each SASL listener, by its name;
    ``listener_max_connections`` and ``listener_creation_rates`` the limits that are set for one
    listener. ``listener_tls`` has the TLS settings of each SSL and SASL_SSL listener; ``http_tls``
    those of our own ports, None if none of them has TLS. ``file_values`` has the text of every key
    that is set, for the authorizer's ``configure``. ``ignored_keys`` has the sorted unknown keys,
    which one warning lists. ``repeated_keys`` has the last two lines of each key that the file sets
    more than once.
    """

    follow: FollowSettings | None
    sasl_listeners: Mapping[str, SaslSettings]
    listener_max_connections: Mapping[str, int]
    listener_creation_rates: Mapping[str, int]
    listener_tls: Mapping[str, TlsSettings]
    http_tls: TlsSettings | None
    file_values: Mapping[str, str] = field(repr=False, compare=False)  # contains passwords
    ignored_keys: tuple[str, ...]
    repeated_keys: Mapping[str, tuple[int, int]] = field(compare=False)

    @property
    def has_client_auth(self) -> bool:
        """True if TLS asks the callers of the decision ports for certificates."""
        return self.http_tls is not None and self.http_tls.client_auth is not ClientAuth.NONE

    @property
    def evidence(self) -> Evidence:
        """The evidence for the Kafka releases whose rules apply."""
        return Evidence.OWN_LOG if self.follow is None else Evidence(self.follow.kind.value)

    @property
    def callers(self) -> Mapping[str, frozenset[str]]:
        """The principals that ``authorizerd.callers.*`` list, by the key's last part."""
        return {
            key.name.removeprefix(CALLERS_PREFIX): getattr(self, name)
            for name, key in _RELOADABLE.items()
            if key.name.startswith(CALLERS_PREFIX)
        }

    @property
    def audit_rules(self) -> AuditRules:
        """Which decisions are audited."""
        return AuditRules(
            filter=AuditFilter(
                principals_included=self.audit_principals_include,
                principals_excluded=self.audit_principals_exclude,
                resources_included=self.audit_resources_include,
                resources_excluded=self.audit_resources_exclude,
                filters_denied=self.audit_filter_denied,
            ),
            allowed_rate=self.audit_sample_allowed,
            is_required=self.audit_required,
        )

    def reload(self, texts: Mapping[str, str]) -> Configuration:
        """Return these settings with the reloadable ones of ``texts``, all of which are valid."""
        values = {name: key.parse(texts[key.name]) for name, key in _RELOADABLE.items()}
        return replace(
            self,
            **values,
            listener_creation_rates=joined_rules.parse_listener_creation_rates(texts),
        )

    def with_reloadable(self, reloaded: Configuration) -> Configuration:
        """Return these settings with the reloadable ones of ``other``."""
        names = (*_RELOADABLE, "listener_creation_rates")
        return replace(self, **{name: getattr(reloaded, name) for name in names})


SETTINGS: Final = select_settings(Configuration, {**KAFKA_SETTINGS, **KAFKA_LIMITS, **OWN_SETTINGS})
"""The key of each field that has one."""
_RELOADABLE: Final = {name: key for name, key in SETTINGS.items() if key.reloadable}


def parse(text: str, *, source: str, overrides: Sequence[str] = ()) -> Configuration:
    """Return the configuration of a server.properties text. Blocks if it has placeholders.

    Args:
        text: the file's bytes as ISO-8859-1, as Kafka reads them.
        source: the file's name in errors.
        overrides: ``KEY=VALUE`` texts. They take precedence over the file, and later ones over
            earlier ones.

    Raises:
        ConfigurationError: the text is malformed; or keys are invalid, missing, contradict each
            other, or are unknown although they begin with ``authorizerd.``. Its ``faults`` are all
            of these, except faults that may only follow from another. If a placeholder has no
            value, only the faults of placeholders are listed.
    """
    properties = parse_properties(text, source=source)
    faults = []
    for override in overrides:
        try:
            overriding = parse_override(override)
        except ConfigurationError as fault:
            faults.append(fault)
        else:
            properties[overriding.key] = overriding
    try:
        properties = resolve_placeholders(properties)
    except ConfigurationError as error:
        raise ConfigurationError.of_all([*error.faults, *faults]) from None
    keys = read_key_values(properties, source)
    if faults:  # its key may be the one that a rule about several keys needs
        raise ConfigurationError.of_all([*keys.faults, *faults])
    return _configure(keys)


def parse_values(values: Mapping[str, str], *, source: str) -> Configuration:
    """Return the configuration whose ``file_values`` are ``values``.

    Their placeholders are already resolved. What still looks like one is text, perhaps from a
    client.

    Raises:
        ConfigurationError: see ``parse``.
    """
    properties = {
        key: Property(key=key, value=value, source=source, line=None)
        for key, value in values.items()
    }
    return _configure(read_key_values(properties, source))


def _configure(keys: KeyValues) -> Configuration:
    source = keys.attempt(follow_rules.read_source)
    protocols = keys.attempt(joined_rules.read_security_protocols)
    sasl_listeners = keys.attempt(read_sasl_listeners, protocols)
    controllers = keys.attempt(joined_rules.read_controller_listener_names, source)
    # These replace the values of their keys. The order is that of faults without a line.
    made = {
        "node_id": keys.attempt(follow_rules.read_node_id, source),
        "metadata_log_dir": keys.attempt(joined_rules.read_metadata_log_dir),
        "listeners": keys.attempt(joined_rules.read_listeners, protocols),
        "advertised_listeners": keys.attempt(
            joined_rules.read_advertised_listeners, controllers, protocols
        ),
        "controller_listener_names": controllers,
        "early_start_listeners": keys.attempt(joined_rules.read_early_start_listeners, controllers),
    }
    follow = keys.attempt(follow_rules.read_follow, source, protocols)
    keys.attempt(follow_rules.check_log_ins, source, sasl_listeners)
    keys.attempt(follow_rules.check_writes, source, sasl_listeners)
    keys.attempt(joined_rules.check_failed_login_delay)
    listener_max_connections = keys.attempt(joined_rules.read_own_limits, "max.connections")
    listener_creation_rates = keys.attempt(joined_rules.read_own_limits, CREATION_RATE)
    listener_tls = keys.attempt(tls_rules.read_listener_tls, protocols)
    keys.attempt(tls_rules.check_admin_http)
    http_tls = keys.attempt(tls_rules.read_http_tls)
    for check in (
        tls_rules.check_metrics_http,
        tls_rules.check_decision_ports,
        joined_rules.check_workers,
        joined_rules.check_audit_masks,
    ):
        keys.attempt(check)
    keys.check()
    texts = {name: trim(entry.value) for name, entry in keys.properties.items()}
    return Configuration(
        **{name: keys.values[key.name] for name, key in SETTINGS.items()} | made,
        follow=follow,
        sasl_listeners=sasl_listeners,
        listener_max_connections=listener_max_connections,
        listener_creation_rates=listener_creation_rates,
        listener_tls=listener_tls,
        http_tls=http_tls,
        file_values=MappingProxyType(texts),
        ignored_keys=joined_rules.read_ignored_keys(keys, source),
        repeated_keys={
            name: (entry.earlier_line, entry.line)
            for name, entry in keys.properties.items()
            if entry.earlier_line is not None and entry.line is not None
        },
    )
