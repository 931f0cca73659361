"""Generate the reference of configuration keys from the table that the daemon reads.

Run ``python -m tools.reference > docs/configuration.md`` to update the page. A test compares them.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from authorizerd.config.follow.settings import AS_CLIENTS, SOURCE_PREFIX
from authorizerd.config.kafka_keys import KAFKA_KEYS
from authorizerd.config.key import Key
from authorizerd.config.keys import is_reloadable
from authorizerd.config.own_keys import OWN_KEYS
from tools.site.places import link_pages

_WIDTH: Final = 105
_MINUS: Final = "\u00a0-\u00a0"
"""A minus that cannot come to the beginning of a line, where it would begin a list."""

_HEAD = """\
# Configuration

This page lists every configuration key: its default, what it does, and whether you can change it
while the daemon runs.

- `authorizerd serve --config FILE` reads a Java properties file in ISO-8859-1, as Kafka does.
  The file may have at most 1 MiB. Unlike in Java, half of a surrogate pair (`\\ud83d` alone) is an
  error, and a line at the end of the file with only a backslash sets no key.
- If a key is set twice, the last line counts, and the daemon warns.
- `--override KEY=VALUE` takes precedence over the file and may be repeated. Other users of the
  machine can see it: keep passwords in the file.
- An invalid value is rejected with file, line, key and reason.
- An unknown key that begins with `authorizerd.` is an error.
- All other keys are Kafka's. The daemon ignores those that it does not support, with one warning.

## Values from other places

As in Kafka, the value of any key may have placeholders `${provider:path:key}` or
`${provider:key}`. The daemon replaces them with the provider's values, once, when it reads the
configuration: at a start and at SIGHUP, and also in `--override`, in profiles, and in files for
`--command-config`.

- `config.providers` is the comma-separated list of names of providers, without blanks.
  `config.providers.NAME.class` is the class of a provider, and `config.providers.NAME.param.*` are
  its parameters.
- The classes are Kafka's own, with the prefix `org.apache.kafka.common.config.provider.`:
    - `FileConfigProvider`: a key of a properties file in UTF-8,
      `${NAME:/etc/secrets.properties:password}`;
    - `DirectoryConfigProvider`: the whole content of a file, `${NAME:/run/secrets:password}`, with
      its line end;
    - `EnvVarConfigProvider`: an environment variable, `${NAME:PASSWORD}`.
- `param.allowed.paths` of the first two limits what they read: a comma-separated list of absolute
  paths of files and folders that exist. As in Kafka 4.4, the targets of symbolic links count.
  `param.allowlist.pattern` of the last one is a Java expression that the whole name of a variable
  must match.
- A placeholder that has no value, or whose provider is unknown, is an error that names its key. It
  is never taken literally. Errors do not show a provider's values.
- A file may have at most 1 MiB. The keys of the providers themselves have no placeholders.
- A Kafka client cannot set a placeholder while the daemon runs.

## Changing keys while the daemon runs

You can change a key marked *reloadable* in two ways:

- Edit the file and send SIGHUP: the daemon reads the file again. If the file has an error, the
  daemon keeps all settings as they were.
- Use a Kafka client (`kafka-configs --entity-type brokers`), for one node or for all. The daemon
  stores such a value in the log, and it takes precedence over the file.

The daemon also reads the keys of TLS again at SIGHUP, for ports that have TLS
(`authorizerd docs tls`).

A daemon that follows a cluster accepts changes from its file alone.

Limits on what clients can change:

- Only super users may set `super.users`, `allow.everyone.if.no.acl.found`, the audit keys, the keys
  that a custom authorizer reconfigures (`authorizerd docs authorizers`), and those of keystores and
  truststores, with the prefix of their port (`authorizerd docs tls`).
- Whenever the daemon reads the file, at a start or at SIGHUP, the file's values of these keys
  replace what clients have set.
- A client cannot set a key that is not reloadable, nor a limit so small that it could lock everyone
  out. Only the file can.
"""

_CLIENT_KEYS: Final = """\
## Keys of Kafka's clients

With `authorizerd.source=brokers`, these keys set up connections to brokers. Without the prefix
`authorizerd.source.`, each is a key of Kafka's clients, and means the same.
"""


def reference() -> str:
    """Return the whole page."""
    kafkas = "".join(_entries(KAFKA_KEYS))
    clients = [key for key in OWN_KEYS if key.doc == _describe_as_clients(key)]
    ours = "".join(_entries([key for key in OWN_KEYS if key not in clients]))
    theirs = "".join(
        f"- `{key.name}` ({_describe_default(key)})\n"
        for key in sorted(clients, key=lambda key: key.name)
    )
    return (
        f"{link_pages(_HEAD)}\n## Kafka's keys\n\n{kafkas}\n## authorizerd's own keys\n\n{ours}"
        f"\n{_CLIENT_KEYS}\n{theirs}"
    )


def _describe_as_clients(key: Key) -> str:
    return AS_CLIENTS.format(key.name.removeprefix(SOURCE_PREFIX))


def _describe_default(key: Key) -> str:
    return f"default `{key.default}`" if key.default else "default: none"


def _entries(keys: Sequence[Key]) -> Iterator[str]:
    """Yield one list item per key, sorted by name and wrapped."""
    for key in sorted(keys, key=lambda key: key.name):
        remarks = _describe_default(key)
        if key.reloadable:
            remarks += ", reloadable"
        elif is_reloadable(key.name):
            remarks += ", read again at SIGHUP"
        wrapped = textwrap.fill(
            f"- **`{key.name}`** ({remarks}): {link_pages(key.doc)}".replace(" - ", _MINUS),
            _WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield f"{wrapped.replace(_MINUS, ' - ')}\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
