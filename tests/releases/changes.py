"""Print what changed between two releases of Kafka, as far as the daemon depends on it.

python -m tests.releases.changes 4.3.1 4.4.0

It reads the jars: the authorizer's classes with javap, and the definitions of APIs and metadata
records. Lines with ``-`` are only in the first release, those with ``+`` only in the second one.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from tests.kafka_rig.rig import Absent, RigError, prepare, run_to_end

Facts = Mapping[str, frozenset[str]]
"""The facts about each class, message or feature, line by line."""

_JARS: Final = ("kafka-clients-", "kafka-metadata-", "kafka-server-common-")
_CLASSES: Final = re.compile(
    r"(org/apache/kafka/(metadata/authorizer|server/authorizer|common/acl|common/resource)/.*"
    r"|org/apache/kafka/controller/AclControlManager)(?<!\$\d)\.class"
)
"""The authorizer, its ACLs, and what accepts changes of them."""
_CODES: Final = re.compile(
    r"org/apache/kafka/(server/common/(?!Test|Feature|Api)\w+Version|common/protocol/Errors)\.class"
)
"""Enums with numbers: the features with their levels, and the errors."""
_RECORDS: Final = "common/metadata/"
_MESSAGES: Final = "common/message/"
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_CODE: Final = re.compile(
    r"// String (\w+)\n\s+\d+: \w+(?: +\d+|_\d)\n\s+\d+: (?:iconst_|bipush +|sipush +)(\d+)\n"
)
"""The first arguments of an enum's constant: its name, its place, and its number."""
_PRODUCTION: Final = re.compile(r"Field (\w+):\S+\n.*Field LATEST_PRODUCTION:")
_JAVAP_SECONDS: Final = 120.0


def main(arguments: list[str]) -> int:
    """Print the differences; return 2 if a release cannot be read."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        before, after = map(read_release, arguments)
    except RigError as error:
        print(error, file=sys.stderr)
        return 2
    for section in before:
        print(f"{section}:")
        for line in differences(before[section], after[section]):
            print(f"  {line}")
    return 0


def read_release(version: str) -> dict[str, Facts]:
    """Return the facts of a release, by section.

    Raises:
        RigError: Maven, Java or javap failed.
    """
    rig = prepare(version=version)
    if isinstance(rig, Absent):
        raise RigError(f"Kafka {version}: {rig.reason}")
    paths = map(Path, rig.classpath.split(os.pathsep))
    jars = [path for path in paths if path.name.startswith(_JARS)]
    names = [name for jar in jars for name in ZipFile(jar).namelist()]
    return {
        "classes": dict(_read_classes(jars, filter(_CLASSES.fullmatch, names))),
        "APIs": dict(_read_messages(jars, _MESSAGES)),
        "metadata records": dict(_read_messages(jars, _RECORDS)),
        "levels and errors": dict(_read_codes(jars, filter(_CODES.fullmatch, names))),
    }


def differences(before: Facts, after: Facts) -> Iterator[str]:
    """Yield what is different, name by name."""
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            yield f"{'+' if name in after else '-'} {name}"
            continue
        lines = [f"  - {line}" for line in sorted(before[name] - after[name])]
        lines += [f"  + {line}" for line in sorted(after[name] - before[name])]
        if lines:
            yield name
            yield from lines


def read_javap(printed: str) -> Iterator[tuple[str, str]]:
    """Yield the declaration of each class that javap printed, and its members with their code."""
    for each in re.split(r"^(?=Compiled from )", printed, flags=re.MULTILINE)[1:]:
        _, declaration, body = each.split("\n", 2)
        yield declaration.removesuffix(" {"), body


def members_of(body: str) -> frozenset[str]:
    """Return the members that other packages may use, and a hash of all code."""
    public = re.findall(r"^  ((?:public|protected) .*);$", body, re.MULTILINE)
    code = re.sub(r"#\d+(, +\d+)?|^ +\d+: ", "", body, flags=re.MULTILINE)
    return frozenset((*public, f"code {sha256(code.encode()).hexdigest()[:8]}"))


def codes_of(body: str) -> frozenset[str]:
    """Return the numbers of an enum, and the newest level if it is a feature."""
    codes = {f"{name} = {code}" for name, code in _CODE.findall(body)}
    return frozenset(codes | {f"newest: {name}" for name in _PRODUCTION.findall(body)})


def message_of(text: str) -> tuple[str, frozenset[str]]:
    """Return the name of a message, and its versions and fields. Comments are left out."""
    message: dict[str, Any] = json.loads(_COMMENT.sub("", text))
    lines = [f"versions {message['validVersions']}"]
    if "apiKey" in message:
        lines.append(f"key {message['apiKey']}")
    if message.get("latestVersionUnstable"):
        lines.append("the newest version is unstable")
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    lines += _fields(message.get("fields", []), structs)
    return message["name"], frozenset(lines)


def _fields(
    fields: list[dict[str, Any]], structs: Mapping[str, Any], at: str = ""
) -> Iterator[str]:
    for each in fields:
        name = f"{at}{each['name']}"
        tag = f", tag {each['tag']}" if "tag" in each else ""
        yield f"{name}: {each['type']}, versions {each['versions']}{tag}"
        inner = each.get("fields") or structs.get(each["type"].removeprefix("[]"), ())
        yield from _fields(inner, structs, f"{name}.")


def _read_messages(jars: list[Path], folder: str) -> Iterator[tuple[str, frozenset[str]]]:
    for jar in jars:
        with ZipFile(jar) as file:
            for name in file.namelist():
                if name.startswith(folder) and name.endswith(".json"):
                    yield message_of(file.read(name).decode())


def _read_classes(jars: list[Path], names: Iterator[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for declaration, body in read_javap(_javap(jars, names)):
        yield declaration, members_of(body)


def _read_codes(jars: list[Path], names: Iterator[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for declaration, body in read_javap(_javap(jars, names)):
        found = re.search(r"enum|class (?:\w+\.)*(\w+)", declaration)
        if found:
            yield found[1], codes_of(body)


def _javap(jars: list[Path], names: Iterator[str]) -> str:
    classes = [name.removesuffix(".class").replace("/", ".") for name in names]
    command = ["javap", "-p", "-c", "-cp", os.pathsep.join(map(str, jars)), *classes]
    done = run_to_end(command, timeout_seconds=_JAVAP_SECONDS)
    if done.exit_code:
        raise RigError(f"javap: exit code {done.exit_code}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
