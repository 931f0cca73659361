"""Valid settings that probably mean something else.

**Invariant:** a hint changes nothing: the daemon starts with these settings, as Kafka does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from authorizerd.acl.surprises import find_principal_surprises
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.values import super_users

_COMMA_AND_TYPE: Final = re.compile(r",\s*(?:user|group):", re.IGNORECASE)
"""A comma in a name is usual: ``User:CN=a,OU=b``. A comma before a type is not."""


def find_hints(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each setting that is probably not meant.

    Args:
        texts: the text of each key that is set, such as ``Configuration.file_values``.
    """
    try:
        principals = super_users(texts.get("super.users", ""))
    except InvalidValueError:
        return  # the configuration's faults report it
    for principal in sorted(principals):
        if _COMMA_AND_TYPE.search(principal):
            yield f"super.users: '{principal}' is one principal: separate entries by semicolons"
        yield from (f"super.users: {each}" for each in find_principal_surprises(principal))
