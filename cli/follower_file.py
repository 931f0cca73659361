"""Convert a broker's server.properties to one for a daemon that follows the broker's cluster.

**Invariant:** secrets are shown only by ``FollowerFile.write`` with secrets. The only users,
passwords and keys copied from the broker are those for the connection to the controllers.

Source: Kafka 4.3 KafkaConfig, QuorumConfig; java.util.Properties.store.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.config import jaas, providers, values
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow import settings as follow
from authorizerd.config.follow.access import controller_jaas_keys
from authorizerd.config.joined_rules import read_security_protocols
from authorizerd.config.key import Key
from authorizerd.config.key_values import read_key_values
from authorizerd.config.keys import KEYS_BY_NAME, listener_prefix
from authorizerd.config.properties import Property
from authorizerd.config.tls_keys import is_secret_ssl_key

LISTENER_PORT: Final = 9096

_AUTHORIZER: Final = "authorizer.class.name"
_BUILDER: Final = "principal.builder.class"
_PROTOCOLS: Final = "listener.security.protocol.map"
_ZOOKEEPER: Final = "zookeeper.connect"
_EXPORT: Final = "authorizerd acls export --from zookeeper://HOST:PORT --to FILE"
_PLACES: Final = ("node.id", "listeners", follow.CONTROLLER_NAMES, _PROTOCOLS)
_WIDTH: Final = 98
_COPIED_MECHANISMS: Final = (values.PLAIN, *values.SCRAM_MECHANISMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the new file."""

    key: str
    value: str = field(repr=False)
    is_secret: bool = False


@dataclass(slots=True)
class FollowerFile:
    """The lines for the daemon, notes for its operator, and the names of keys that are left out.

    ``unknown`` are keys that affect decisions, but whose values on the broker are unknown.
    """

    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> list[str]:
        return [line.key for line in self.lines if line.is_secret]

    def write(self, *, with_secrets: bool) -> str:
        """Return the file's text. A comment replaces each secret that is left out."""
        return "".join(f"{row}\n" for row in self._rows(with_secrets=with_secrets))

    def _rows(self, *, with_secrets: bool) -> Iterator[str]:
        yield "# The configuration of a daemon that follows the cluster of a broker."
        for note in self.notes:
            yield from _comment(f"NOTE: {note}")
        for line in self.lines:
            if line.is_secret and not with_secrets:
                yield f"# {line.key}: a secret, which is written only with --output FILE."
            else:
                yield f"{_escape(line.key, ' :=#!')}={_escape(line.value)}"
        if self.left_out:
            names = ", ".join(sorted(self.left_out))
            yield from _comment(f"Left out, because the daemon does not need them: {names}")


def import_broker(
    properties: Mapping[str, Property],
    *,
    source: str,
    node_id: int | None,
    log_dir: str,
    cluster_id: str | None = None,
) -> FollowerFile:
    """Return the lines with which a daemon follows a broker's cluster.

    Args:
        properties: the broker's properties. source: the name of the broker's file, for errors.
        node_id: the daemon's id, None for the default.
        cluster_id: the cluster's id, None if it is not known.

    Raises:
        InvalidValueError: the file does not belong to a broker or controller in KRaft mode.
    """
    return _Import(properties, source).run(node_id, log_dir, cluster_id)


class _Import:
    """Copies keys one by one, and remembers the broker's other keys."""

    def __init__(self, properties: Mapping[str, Property], source: str) -> None:
        self._properties = properties
        self._source = source
        self._texts = {name: values.trim(each.value) for name, each in properties.items()}
        self._made = FollowerFile()
        self._known = {"node.id", "process.roles", "log.dirs", "log.dir", "metadata.log.dir"}

    def run(self, node_id: int | None, log_dir: str, cluster_id: str | None) -> FollowerFile:
        name = self._controllers()
        protocol = self._protocol(name)
        if node_id is not None:
            self._add("node.id", str(node_id))
        self._add("log.dirs", log_dir)
        self._add_listeners(name, protocol)
        if cluster_id is not None:
            self._add(follow.CLUSTER_ID, cluster_id)
        for key in (
            follow.BOOTSTRAP_SERVERS,
            follow.VOTERS,
            follow.REQUEST_TIMEOUT,
            follow.WRITE_TIMEOUT,
        ):
            self._copy(KEYS_BY_NAME[key])
        if protocol in values.SASL_PROTOCOLS:
            self._add_log_in(name)
        if protocol in values.TLS_PROTOCOLS:
            for source_ssl_key in follow.SOURCE_SSL_KEYS:
                self._copy(
                    source_ssl_key, listener_prefix(name) + source_ssl_key.name, source_ssl_key.name
                )
        for key in ("super.users", "allow.everyone.if.no.acl.found"):
            self._copy(KEYS_BY_NAME[key])
        self._add_providers()
        self._add_notes()
        self._made.left_out = [text for text in self._texts if text not in self._known]
        return self._made

    def _controllers(self) -> str:
        """Return the name of the controllers' listener."""
        if not (self._texts.get(follow.BOOTSTRAP_SERVERS) or self._texts.get(follow.VOTERS)):
            keys = f"{follow.BOOTSTRAP_SERVERS} or {follow.VOTERS}"
            reason = f"expected {keys}: this is not the file of a broker"
            step = f". ZooKeeper has its ACLs: run {_EXPORT}" if _ZOOKEEPER in self._texts else ""
            raise InvalidValueError(f"{reason} in KRaft mode (Kafka 3.9 or newer){step}")
        names = values.words(self._texts.get(follow.CONTROLLER_NAMES, ""))
        if not names:
            raise InvalidValueError(f"expected {follow.CONTROLLER_NAMES}, which every broker has")
        return names[0]

    def _protocol(self, name: str) -> values.SecurityProtocol:
        own = {key: self._properties[key] for key in _PLACES if key in self._properties}
        log_dirs = Property(key="log.dirs", value="/", source=self._source, line=None)
        node_id = Property(key="node.id", value="0", source=self._source, line=None)
        keys = read_key_values({"node.id": node_id, **own, "log.dirs": log_dirs}, self._source)
        keys.check()
        protocol = read_security_protocols(keys).get(name)
        if protocol is not None:
            return protocol
        try:
            return values.SecurityProtocol(name.upper())
        except ValueError:
            reason = f"{_PROTOCOLS} has no security protocol for {name}"
            raise keys.refusal(follow.CONTROLLER_NAMES, reason) from None

    def _add(self, key: str, value: str, *, is_secret: bool = False) -> None:
        self._known.add(key)
        self._made.lines.append(Line(key=key, value=value, is_secret=is_secret))

    def _add_listeners(self, name: str, protocol: values.SecurityProtocol) -> None:
        own = "LOCAL" if name != "LOCAL" else "DAEMON"
        self._add("listeners", f"{own}://127.0.0.1:{LISTENER_PORT}")
        self._add(_PROTOCOLS, f"{own}:PLAINTEXT,{name}:{protocol}")
        self._add(follow.CONTROLLER_NAMES, name)

    def _copy(self, key: Key, *names: str) -> None:
        """Copy a key under the first of these names that is set; by default, its own name."""
        names = names or (key.name,)
        self._known.update(names)
        name = next((each for each in names if each in self._texts), None)
        if name is None or self._lacks_provider(name):
            return
        if providers.find_providers(self._texts[name]):
            is_secret = is_secret_ssl_key(name) and not providers.is_placeholder(self._texts[name])
            self._add(name, self._texts[name], is_secret=is_secret)
            return
        try:
            key.parse(self._texts[name])
        except InvalidValueError as error:
            is_secret = is_secret_ssl_key(name)
            reason = "the value is invalid" if is_secret else str(error)
            self._leave_out(name, reason)
            return
        self._add(name, self._texts[name], is_secret=is_secret_ssl_key(name))

    def _leave_out(self, name: str, reason: str) -> None:
        self._made.notes.append(f"{name} is left out: {reason}")
        self._made.unknown.append(name)

    def _lacks_provider(self, name: str) -> bool:
        """Leave out a key if the daemon lacks its placeholder's provider; return whether it did."""
        lacking = [
            provider
            for provider in sorted(providers.find_providers(self._texts[name]))
            if providers.PROVIDERS in self._texts
            and not providers.is_supported(self._properties, provider)
        ]
        if lacking:
            reason = f"the daemon cannot ask its provider {lacking[0]}: add the key with its value."
            self._leave_out(name, reason)
        return bool(lacking)

    def _add_providers(self) -> None:
        """Copy the providers that the lines refer to, and no others."""
        names = {name for line in self._made.lines for name in providers.find_providers(line.value)}
        if providers.PROVIDERS in self._texts and names:
            self._add(providers.PROVIDERS, ",".join(sorted(names)))
            for name in sorted(names):
                for key in providers.list_provider_keys(self._properties, name):
                    self._add(key, self._properties[key].value)

    def _add_log_in(self, name: str) -> None:
        self._copy(KEYS_BY_NAME[follow.CONTROLLER_MECHANISM])
        mechanism = self._texts.get(follow.CONTROLLER_MECHANISM, "GSSAPI")
        if mechanism not in _COPIED_MECHANISMS:
            remedy = f"set {follow.CONTROLLER_MECHANISM} to one of {', '.join(_COPIED_MECHANISMS)}"
            self._made.notes.append(
                f"the brokers log in to controllers with {mechanism}, which is not copied:"
                f" {remedy}, enable it on the controllers' listener, and add a JAAS line."
            )
            return
        names = controller_jaas_keys(name, mechanism)
        self._known.update(names)
        key = next((each for each in names if each in self._texts), None)
        if key is None:
            self._made.notes.append(f"{names[0]} is missing: add a JAAS line.")
        elif self._lacks_provider(key):
            pass
        elif providers.is_placeholder(self._texts[key]):
            self._add(names[0], self._texts[key])
        else:
            self._copy_log_in(key, names[0], mechanism)

    def _copy_log_in(self, key: str, name: str, mechanism: str) -> None:
        """Copy only username and password: a JAAS line may have more users."""
        try:
            user = jaas.parse_log_in(self._texts[key], mechanism)
        except InvalidValueError as error:
            self._leave_out(key, str(error))
            return
        self._made.notes.append(
            f"the daemon logs in as {user.username}, the broker's own user. Give it a user of its"
            " own, with CLUSTER_ACTION on the cluster and no other right. Even that right lets it"
            " act as anyone: authorizerd.source=brokers needs DESCRIBE alone."
        )
        module = jaas.PLAIN_LOGIN_MODULE if mechanism == values.PLAIN else jaas.SCRAM_LOGIN_MODULE
        username, password = jaas.quote_option(user.username), jaas.quote_option(user.password)
        options = f"username={username} password={password}"
        is_secret = not providers.is_placeholder(user.password)
        self._add(name, f"{module} required {options};", is_secret=is_secret)

    def _add_notes(self) -> None:
        self._known.update((_AUTHORIZER, _BUILDER, *(line.key for line in self._made.lines)))
        authorizer, builder = self._texts.get(_AUTHORIZER, ""), self._texts.get(_BUILDER, "")
        if authorizer != values.STANDARD_AUTHORIZER:
            found = (
                f"the brokers use {authorizer}" if authorizer else "the broker has no authorizer"
            )
            note = f"{found}, so the cluster may have no ACLs to follow: expected"
            self._made.notes.append(f"{note} {_AUTHORIZER}={values.STANDARD_AUTHORIZER}.")
        if builder and not builder.endswith(".DefaultKafkaPrincipalBuilder"):
            self._made.notes.append(
                f"the brokers get the names of principals from {builder}, which the daemon cannot"
                " load: principals at its own listeners may have other names."
            )


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        escape_unprintable(text),  # a terminal interprets control characters
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


_CONTROLS: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _escape(text: str, also: str = "") -> str:
    """Return a key or value escaped for ``java.util.Properties``."""
    escaped = "".join(_escape_character(each, also) for each in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape_character(character: str, also: str) -> str:
    if character == "\\" or character in also:
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    if character in _CONTROLS:
        return _CONTROLS[character]
    code = character.encode("utf-16-be")
    return "".join(f"\\u{code[at]:02x}{code[at + 1]:02x}" for at in range(0, len(code), 2))
