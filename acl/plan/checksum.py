"""The checksum of a plan's document, over every field of it.

**Invariant:** it depends on the values only, not on blanks or on the order of keys. So a plan may
be laid out differently, but no value can be changed without a new checksum.

It is not a signature: a person who can write the file can also compute it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

CHECKSUM: Final = "sha256"
"""The key of the checksum in the document. It is not a part of what it covers."""


def compute_checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document of JSON values, in hexadecimal digits."""
    covered = {key: value for key, value in document.items() if key != CHECKSUM}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
