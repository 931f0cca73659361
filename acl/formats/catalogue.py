"""All formats of ACLs in text, and which of them a text has.

Each format's module is imported once the format is used, so that a command that reads a listing
does not wait for PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from authorizerd.acl.formats import listing
from authorizerd.acl.formats.model import AclsRead, AclsWritten, Format
from authorizerd.acl.model import Acl

DOCUMENT_SUFFIXES: Final = (".json", ".yaml", ".yml")

_LISTED: Final = re.compile(r"(?:ACLs for principal|Current ACLs for resource) `")
_ZNODE: Final = re.compile(r'\{\s*"path"\s*:')
_YAML_KEY: Final = re.compile(r"""^["']?(\w+)["']?[ \t]*:(?:\s|$)""", re.MULTILINE)


def _read_yaml(text: str) -> AclsRead:
    from authorizerd.acl.formats.document import read_yaml

    return read_yaml(text)


def _write_yaml(acls: Sequence[Acl]) -> AclsWritten:
    from authorizerd.acl.formats.document import write_yaml_document

    return write_yaml_document(acls)


def _read_json(text: str) -> AclsRead:
    from authorizerd.acl.formats.document import read_json

    return read_json(text)


def _write_json(acls: Sequence[Acl]) -> AclsWritten:
    from authorizerd.acl.formats.document import write_json_document

    return write_json_document(acls)


def _read_dump(text: str) -> AclsRead:
    from authorizerd.acl.zookeeper.dump import read_dump

    return read_dump(text)


def _write_dump(acls: Sequence[Acl]) -> AclsWritten:
    from authorizerd.acl.zookeeper.dump import write_dump

    return write_dump(acls)


_FORMATS: Final = (
    Format("yaml", "a YAML document with the key acls", _read_yaml, _write_yaml),
    Format("json", "the same document in JSON", _read_json, _write_json),
    Format("listing", "the output of kafka-acls --list", listing.read, listing.write),
    Format("zookeeper", "a dump of ZooKeeper: a znode in each line", _read_dump, _write_dump),
)
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in _FORMATS}
"""The formats by name."""


def detect_format(text: str, suffix: str) -> Format:
    """Return the format of a text; its ``read`` reports what is wrong if the text has none.

    Args:
        suffix: of the file's name. With another suffix than those of YAML and JSON, or with none,
            the beginning of the text decides.
    """
    if suffix.lower() in DOCUMENT_SUFFIXES:
        return FORMATS["json" if suffix.lower() == ".json" else "yaml"]
    start = text.lstrip()
    if _ZNODE.match(start):
        return FORMATS["zookeeper"]
    if start.startswith("{"):
        return FORMATS["json"]
    if not _LISTED.match(start) and _YAML_KEY.match(start):
        return FORMATS["yaml"]
    return FORMATS["listing"]


def read_acl_text(text: str, suffix: str) -> AclsRead:
    """Return the ACLs of a text of any format.

    Raises:
        AclTextError: the text has another form.
    """
    return detect_format(text, suffix).read(text)
