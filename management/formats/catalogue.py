"""All text formats of ACLs, and the detection of a text's format.

Each format's module is imported once the format is used, so that a command that reads a listing
does not wait for PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final, TypeAlias

from authorizerd.acl.model import Acl
from authorizerd.management.formats import listing
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Format
from authorizerd.management.formats.unread import LIST_STEP, find_step

Reader: TypeAlias = Callable[[str], AclsRead]
Writer: TypeAlias = Callable[[Sequence[Acl]], AclsWritten]

DOCUMENT_SUFFIXES: Final = (".json", ".yaml", ".yml")

_LISTED: Final = re.compile(
    r"^(?:[ \t]*(?:ACLs for principal|Current ACLs for resource) `"
    r"|PRINCIPAL +HOST +RESOURCE-TYPE )",
    re.MULTILINE,
)
_COMMA_SEPARATED: Final = re.compile(r'"?(?:Kafka)?Principal"? *, *"?ResourceType')
_ZNODE: Final = re.compile(r'\{\s*"path"\s*:')
_ENTRY: Final = re.compile(
    r'\{\s*"(?:resource_type|resource_name|pattern_type|principal|host|operation|permission_type)"\s*:'
)
_YAML_KEY: Final = re.compile(r"""^["']?(\w+)["']?[ \t]*:(?:\s|$)""", re.MULTILINE)
_JSON_KEY: Final = re.compile(r'"(\w+)"\s*:')

_MARKS: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "terraform": (
        frozenset(("format_version",)),
        frozenset(("resource", "kafka_acl")),
        frozenset(("resource", "confluent_kafka_acl")),
    ),
    "strimzi": (frozenset(("apiVersion", "kind")),),
    "julie": (frozenset(("context",)),),
    "kafka-gitops": (
        frozenset(("settings",)),
        frozenset(("topics",)),
        frozenset(("services",)),
        frozenset(("users",)),
        frozenset(("customServiceAcls",)),
        frozenset(("customUserAcls",)),
    ),
}
"""For each format: keys that only its texts have together at the top level."""


def _late(
    module: str, read: str, write: str, *, writing: str | None = None
) -> tuple[Reader, Writer]:
    """Return two functions of a module that is imported by their first call.

    Errors of the first function name the line of their place.

    Args:
        writing: the module of the second function, if different.
    """

    def read_late(text: str) -> AclsRead:
        reader: Reader = getattr(import_module(f"authorizerd.management.{module}"), read)
        try:
            return reader(text)
        except AclTextError as error:
            from authorizerd.management.formats.parsing import add_position

            raise add_position(error, text) from error

    def write_late(acls: Sequence[Acl]) -> AclsWritten:
        writer: Writer = getattr(
            import_module(f"authorizerd.management.{writing or module}"), write
        )
        return writer(acls)

    return read_late, write_late


_FORMATS: Final = (
    Format(
        "yaml",
        "a YAML document with the key acls",
        *_late("formats.document", "read_yaml", "write_yaml_document"),
    ),
    Format(
        "json",
        "the same document in JSON",
        *_late("formats.document", "read_json", "write_json_document"),
    ),
    Format(
        "json-lines",
        "an ACL in each line, in JSON, as the web console downloads them",
        *_late("formats.document", "read_lines", "write_lines"),
    ),
    Format(
        "listing",
        "the output of kafka-acls --list, of any Kafka version, or of rpk security acl list",
        listing.read,
        listing.write,
    ),
    Format(
        "csv",
        "CSV of Kafka UI, Kafka Security Manager or AKHQ",
        *_late("formats.comma_separated", "read", "write"),
    ),
    Format("strimzi", "KafkaUser resources of Strimzi", *_late("formats.strimzi", "read", "write")),
    Format(
        "julie",
        "a topology of Julie Ops",
        *_late("formats.julie", "read", "write", writing="formats.julie_writing"),
    ),
    Format(
        "kafka-gitops",
        "a state file of kafka-gitops",
        *_late("formats.gitops", "read", "write"),
    ),
    Format(
        "terraform",
        "Terraform: a plan or a state in JSON, or a configuration in JSON",
        *_late("formats.terraform", "read", "write"),
    ),
    Format(
        "zookeeper",
        "a dump of ZooKeeper: a znode in each line",
        *_late("zookeeper.export", "read_dump", "write_dump"),
    ),
)
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in _FORMATS}
"""The formats by name."""
FORMAT_NAMES: Final = ", ".join(FORMATS)

PASTED_FORMATS: Final = tuple(FORMATS[name] for name in ("listing", "json-lines", "json"))
"""The formats that people paste into the web console: those that are quick to read."""


def detect_format(text: str, suffix: str) -> Format:
    """Return the format of a text. If the text has no known format, ``read`` reports what is wrong.

    Args:
        suffix: of the file's name. With another suffix than those of YAML and JSON, or with none,
            the beginning of the text decides whether it is a listing.
    """
    start = text.lstrip()
    if _ENTRY.match(start):
        return FORMATS["json-lines"]
    if _COMMA_SEPARATED.match(start) or suffix.lower() == ".csv":
        return FORMATS["csv"]
    is_json = start.startswith("{")
    if suffix.lower() not in DOCUMENT_SUFFIXES:
        if _ZNODE.match(start):
            return FORMATS["zookeeper"]
        if not is_json and (_LISTED.search(start) or not _YAML_KEY.search(start)):
            return FORMATS["listing"]
        suffix = ".json" if is_json else ".yaml"
    keys = frozenset(_JSON_KEY.findall(text) if is_json else _YAML_KEY.findall(text))
    for name, marks in _MARKS.items():
        if any(mark <= keys for mark in marks):
            return FORMATS[name]
    return FORMATS["json" if suffix.lower() == ".json" else "yaml"]


def read_acl_text(
    text: str, suffix: str, formats: Sequence[Format] = tuple(FORMATS.values())
) -> AclsRead:
    """Return the ACLs of a text in one of ``formats``."""
    found = detect_format(text, suffix)
    expected = f"expected one of the formats {', '.join(each.name for each in formats)}"
    if found not in formats:
        raise AclTextError("line 1", f"{expected}, found {found.name}")
    try:
        return found.read(text)
    except AclTextError as error:
        raise AclTextError(error.place, _add_remedy(error.reason, found, text, expected)) from error


def _add_remedy(reason: str, found: Format, text: str, expected: str) -> str:
    """Return the reason of an error, with the remedy if it is known."""
    step = find_step(text)
    if step and step.is_certain:
        return f"{step.what} is not read: {step.step}"
    if step and found.name != "terraform":
        reason = f"{reason}; if this is {step.what}, {step.step}"
    return reason if _is_like(found, text) else f"{reason}; {expected}; or {LIST_STEP}"


def _is_like(found: Format, text: str) -> bool:
    """Return False if a text has nothing of the format in which it is read."""
    match found.name:
        case "listing":
            return _LISTED.search(text) is not None
        case "yaml" | "json":
            return "acls" in text
        case _:
            return True
