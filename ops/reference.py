"""The reference of configuration keys, from the table that the daemon itself reads.

``python -m ops.reference > docs/configuration.md`` writes it anew; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from authorizerd.config.kafka_keys import KAFKA_KEYS
from authorizerd.config.key import Key
from authorizerd.config.own_keys import OWN_KEYS

_HEAD = """\
# Configuration

`authorizerd serve --config FILE` reads a Java properties file in ISO-8859-1, as Kafka does;
`--override KEY=VALUE` wins over it and may be repeated. A bad value is refused with file, line,
key and reason. Keys that begin with `authorizerd.` are ours, and an unknown one is an error; any
other key is Kafka's and, where it means nothing here, is ignored with one warning.

A key marked `*` may change while the daemon runs: by SIGHUP, which reads the file again, or by a
Kafka client (`kafka-configs --entity-type brokers`), of one node or of all. What a client has set
is kept in the log, and beats the file. A file with a mistake in it changes nothing.

Only super users may set `super.users`, `allow.everyone.if.no.acl.found`, the audit's keys and
those that a plugged-in authorizer reconfigures (docs/authorizers.md) over the wire. These obey the
file whenever it is read, at a start and at a SIGHUP, whatever the log says of them. A client
cannot set any other key, nor a limit so small that it could keep everyone out: only the file can.
"""


def reference() -> str:
    """Return the whole document."""
    kafkas, ours = _table(KAFKA_KEYS), _table(OWN_KEYS)
    return "\n".join([_HEAD, "## Kafka's keys\n", *kafkas, "", "## Our own\n", *ours, ""])


def _table(keys: Sequence[Key]) -> list[str]:
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for key in sorted(keys, key=lambda key: key.name):
        default = "required" if key.required else f"`{key.default}`" if key.default else ""
        mark = "*" if key.reloadable else ""
        rows.append(f"| `{key.name}`{mark} | {default} | {key.doc} |")
    return rows


if __name__ == "__main__":
    sys.stdout.write(reference())
