"""What users type: lines of the metadata shell, places of ACLs, addresses and flags."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

from authorizerd.cli.acls.arguments import check_arguments, parse_arguments
from authorizerd.cli.acls.connection_settings import read_settings
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.plan import make_plan
from authorizerd.cli.errors import CommandError
from authorizerd.cli.log.format import read_scram_arguments
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.conversation import split_line
from authorizerd.cli.shell.tree import Folder, compile_glob, folder_of, table_of
from authorizerd.cli.transfer.model import Kind, LocatorError, parse_locator
from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.settings import parse_address
from authorizerd.management.formats.catalogue import FORMATS
from tests.fuzz.target import (
    OWN_CHARACTERS_MAX,
    SECRET,
    in_thread,
    rejected_with,
)

_NAMES: Final = ("orders", "a*b", "{a,b}", "é\x1b[31m", "a b", "ab", "b", "-1", "..", "\\")
_SEPARATOR: Final = "\n"


@cache
def _tree() -> Folder:
    texts = dict.fromkeys(_NAMES, "text\x1b[31m")
    return folder_of({"topics": lambda: table_of(texts), "é\n": lambda: table_of({})})


def _check_shell(data: bytes) -> None:
    """Each line is a command or an error, on lines that no terminal obeys."""
    printed: list[str] = []
    shell = Shell(_tree(), printed.append, is_interactive=True)
    for line in _text(data).split(_SEPARATOR)[:20]:
        shell.remember(line)
        assert shell.run(split_line(line)) in (0, 1, 2)
        assert shell.working_directory.startswith("/")
    for text in printed:
        assert text.endswith("\n")
        assert text[:-1].isprintable(), repr(text[:300])


def _check_glob(data: bytes) -> None:
    """A name with wildcards matches what it matches when it is read one character at a time."""
    glob, _, name = _text(data)[:60].partition("/")
    pattern = compile_glob(glob)
    names = (name, *_NAMES)
    expected = [*_alternatives(glob)]
    for each in names:
        if pattern is None:
            assert not expected
        else:
            assert bool(pattern.fullmatch(each)) == any(_matches(one, each) for one in expected)


_Token = tuple[str, bool]
"""A character, and whether it is a wildcard."""


def _alternatives(glob: str) -> Iterator[list[_Token]]:
    """Yield each choice of the braces; none if the name stands for itself."""
    choices: list[list[list[_Token]]] = [[[]]]
    is_group = is_wild = is_escaped = False
    for each in glob:
        is_wildcard = each in "?*" and not is_escaped
        if each == "\\" and not is_escaped:
            is_escaped = True
            continue
        if each == "{" and not is_escaped:
            if is_group:
                return
            is_group = is_wild = True
            choices.append([[]])
        elif each == "}" and is_group and not is_escaped:
            is_group = False
            choices.append([[]])
        elif each == "," and is_group and not is_escaped:
            choices[-1].append([])
        else:
            is_wild = is_wild or is_wildcard
            choices[-1][-1].append((each, is_wildcard))
        is_escaped = False
    if is_escaped:
        choices[-1][-1].append(("\\", False))
    if is_group or not is_wild:
        return
    joined: list[list[_Token]] = [[]]
    for group in choices:
        joined = [[*begin, *end] for begin in joined for end in group][:2_000]
    yield from joined


def _matches(tokens: list[_Token], name: str) -> bool:
    reached = {0}
    for character, is_wildcard in tokens:
        if is_wildcard and character == "*":
            reached = {end for begin in reached for end in _run(name, begin)}
        else:
            reached = {
                n + 1
                for n in reached
                if n < len(name)
                and (name[n] not in _BREAKS if is_wildcard else name[n] == character)
            }
    return len(name) in reached


def _run(name: str, begin: int) -> Iterator[int]:
    """Yield the ends of the texts from ``begin`` that a star matches."""
    yield begin
    for place in range(begin, len(name)):
        if name[place] in _BREAKS:
            return
        yield place + 1


_BREAKS: Final = "\n\r\x85\u2028\u2029"
"""The characters that no wildcard matches in Java."""


def _check_locator(data: bytes) -> None:
    """A text names one place, and addresses are read back as they are written."""
    text = _text(data).replace("\0", "")
    with rejected_with(LocatorError, characters=OWN_CHARACTERS_MAX), suppress(OSError):
        found = parse_locator(text, FORMATS)
        assert found.text == text
        assert found.value
        assert text.endswith(found.value) or found.kind is Kind.CLUSTER
        is_url = re.match(r"(?i)(kafka|zookeeper)://", text) is not None
        assert is_url == (found.kind in (Kind.CLUSTER, Kind.ZOOKEEPER))
    with suppress(ZooKeeperError):  # the command escapes its text
        ensemble = parse_address(text)
        assert parse_address(str(ensemble)) == ensemble


def _check_flags(data: bytes) -> None:
    """The flags of kafka-acls make a plan, or are rejected as there."""
    words = [word for word in _text(data).split(_SEPARATOR) if "command-config" not in word]
    with suppress(UsageError, KafkaAclsError):  # the command escapes their texts
        given = parse_arguments(words)
        check_arguments(given)
        read_settings(given)
        make_plan(given)


def _check_scram(data: bytes) -> None:
    """No part of a credential is quoted, because any part may be a password."""
    text = _text(data)
    with rejected_with(CommandError):
        [found] = read_scram_arguments([text], lambda: b"salt")
        assert SECRET not in repr(found) or SECRET in found.user


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


COMMAND_TARGETS: Final = (
    in_thread(
        "shell-lines",
        _check_shell,
        lambda: (b"ls /topics\ncd topics\ncat orders a*\nfind\ntree /\nman ls\nhistory 3\npwd",
                 "ls '/topics/{a,b}' \"a b\" -1 --help\ncat é* ../?b\nexit".encode()),
        words=(b"\nls ", b"\ncat ", b"\ncd ", b"\nfind ", b"\ntree ", b"--", b"../", b"history ")
    ),
    in_thread("shell-globs", _check_glob,
              lambda: (
                  b"o*s/orders",
                  b"{a,b}?/ab",
                  b"\\*{a*,\\,}/*abc",
                  "?\u2028*/é\u2028".encode(),
              ),
              words=(b"*", b"?", b"{", b"}", b",", b"\\", b"/")),
    in_thread(
        "locators",
        _check_locator,
        lambda: (*(b"kafka://a:9092,[::1]:9093/", b"zookeeper://zk1:2181,[::1]/chroot/path"),
                 *(b"yaml:-", b"log:DIR", b"DIR/x.checkpoint", b"zk1:2181,zk2/kafka")),
        words=(b"kafka://", b"zookeeper:/", b"checkpoint:", b"json-lines:", b"-", b"@", b"[::]")
    ),
    in_thread(
        "acl-flags",
        _check_flags,
        lambda: (
            b"--bootstrap-server\nlocalhost:9092,[::1]:9093\n--add\n--allow-principal\nUser:a\n"
            b"--producer\n--topic=t\n--resource-pattern-type\nPREFIXED\n--idempotent",
            b"--bootstrap-controller=c:1\n--list\n--cluster\n--principal\nUser:a\n--operation\nALL",
            b"--bootstrap-server=a:1\n-remove\n--force\n--group=*\n--deny-principal=User:b\n"
            b"--deny-host=10.0.0.1\n--operation=Read",
        ),
        words=(b"\n--topic\n", b"--consumer", b"--delegation-token", b"--", b"=", b"MATCH", b":0")
    ),
    in_thread(
        "scram-arguments",
        _check_scram,
        lambda: (b"SCRAM-SHA-256=[name=alice,password=%b]" % SECRET.encode(),
                 b'SCRAM-SHA-512=[name="b",iterations=8192,salt="MTIz",saltedpassword="NDU2"]'),
        words=(b"name=", b"password=", b"iterations=4096", b"salt=", b"saltedpassword=", b"]"),
        weight=3
    ),
)  # fmt: skip
