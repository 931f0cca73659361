"""Which dynamic configs may be shown. A log has the values of passwords as plain text.

**Invariant:** a broker's config is shown only if its name is one that Kafka documents as not
secret. Custom plug-ins read configs of any name, so an unknown name may belong to a password.

Source: Kafka 4.3 DynamicBrokerConfig, MetadataNodeRedactionCriteria.
"""

from __future__ import annotations

import re
from typing import Final

BROKER_TYPES: Final = frozenset((4, 8, 0))
"""ConfigResource.Type of BROKER and BROKER_LOGGER, and of resources that are unknown."""

_SECRET: Final = re.compile(
    r"passw|secret|credential|jaas|token|(^|\.)(ssl\.)?(keystore|private|api|access)\.?key", re.I
)
_SHOWN: Final = re.compile(
    r"(listener\.name\.[^.]+\.)?(ssl\.(keystore|truststore)\.(location|type)|"
    r"ssl\.(protocol|provider|cipher\.suites|enabled\.protocols|client\.auth|"
    r"keymanager\.algorithm|trustmanager\.algorithm|endpoint\.identification\.algorithm|"
    r"engine\.factory\.class|principal\.mapping\.rules)|sasl\.enabled\.mechanisms|"
    r"sasl\.mechanism\.inter\.broker\.protocol|max\.connections(\.creation\.rate)?|"
    r"principal\.builder\.class)"
    r"|log\.[a-z.]+|num\.[a-z.]+|background\.threads|compression\.[a-z.]+|message\.max\.bytes"
    r"|min\.insync\.replicas|unclean\.leader\.election\.enable|advertised\.listeners|listeners"
    r"|listener\.security\.protocol\.map|max\.connections(\.[a-z.]+)?|connection[a-z.]*"
    r"|(leader|follower|alter\.log\.dirs)\.(replication|io)[a-z.]*|metric\.reporters"
    r"|auto\.create\.topics\.enable|default\.replication\.factor|producer\.id\.[a-z.]+"
    r"|transaction\.[a-z.]+|remote\.(log|fetch)\.(index|manager|reader|max|copier)[a-z.]*"
    r"|allow\.everyone\.if\.no\.acl\.found|super\.users|group\.[a-z.]+|share\.[a-z.]+"
    r"|cordoned\.log\.dirs|replica\.[a-z.]+|socket\.[a-z.]+|org\.apache\.kafka\.[A-Za-z0-9.$]+"
    r"|kafka\.[A-Za-z0-9.$]+|root"
)


def is_shown(key: str, *, is_broker: bool) -> bool:
    """Return True if the value of a config may be shown.

    Args:
        is_broker: True if it belongs to a broker, or to an unknown kind of resource. Configs of
            topics, groups and client metrics are not secret, unless their name says otherwise.
    """
    if _SECRET.search(key):
        return False
    return not is_broker or _SHOWN.fullmatch(key) is not None
