"""The flags of kafka-acls, plus ``--log-dir``, ``--as-of`` and ``--json``, and their combinations.

Arguments are parsed as in kafka-acls. Flags cannot be abbreviated, and begin with one hyphen or
two. A required value may itself look like a flag. Words that are neither a flag nor a flag's value
are ignored. There are two differences: ``--help`` has its own texts, and ``--version`` prints the
version of authorizerd.

Source: Kafka 4.3 AclCommand.AclCommandOptions, CommandLineUtils; jopt-simple 5.0.4 OptionParser.
"""

from __future__ import annotations

import shutil
import textwrap
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.flags import is_utf8
from authorizerd.cli.profile import HELP as HELP_OF_PROFILE

HELP: Final = "This tool helps to manage acls on kafka."


class Argument(Enum):
    """Whether a flag takes a value. The values are what the help prints after the flag."""

    NONE = ""
    OPTIONAL = " [VALUE]"
    REQUIRED = " VALUE"


class Flag(NamedTuple):
    """A flag's argument and help."""

    argument: Argument
    help: str


FLAGS: Final[Mapping[str, Flag]] = {
    "add": Flag(Argument.NONE, "Add ACLs."),
    "remove": Flag(Argument.NONE, "Remove ACLs."),
    "list": Flag(Argument.NONE, "List the ACLs of the named resources, or all."),
    "bootstrap-server": Flag(
        Argument.REQUIRED, f"Brokers to connect to: host:port,host:port. {HELP_OF_PROFILE}."
    ),
    "bootstrap-controller": Flag(
        Argument.REQUIRED, "Controllers to connect to instead of brokers: host:port,host:port."
    ),
    "command-config": Flag(
        Argument.OPTIONAL,
        "A properties file for the connection, with Kafka's client keys: security.protocol, "
        "sasl.mechanism, sasl.jaas.config, ssl.truststore.*, ssl.keystore.*, request.timeout.ms, "
        "default.api.timeout.ms.",
    ),
    "log-dir": Flag(
        Argument.REQUIRED,
        "With --list: read a directory with __cluster_metadata-0, or a .checkpoint file, instead "
        "of asking a server.",
    ),
    "as-of": Flag(
        Argument.REQUIRED,
        "With --log-dir: list the ACLs of an earlier moment: an offset of the log, a time with its "
        "zone such as 2026-01-02T03:04:05Z, or milliseconds since 1970.",
    ),
    "topic": Flag(Argument.REQUIRED, "A topic; '*' names the ACLs for all topics."),
    "group": Flag(Argument.REQUIRED, "A consumer group; '*' names the ACLs for all groups."),
    "cluster": Flag(Argument.NONE, "The cluster."),
    "transactional-id": Flag(
        Argument.REQUIRED, "A transactional id; '*' names the ACLs for all transactional ids."
    ),
    "delegation-token": Flag(
        Argument.REQUIRED, "A delegation token; '*' names the ACLs for all delegation tokens."
    ),
    "user-principal": Flag(
        Argument.REQUIRED, "A user, the resource of the operations CreateTokens and DescribeTokens."
    ),
    "resource-pattern-type": Flag(
        Argument.REQUIRED,
        "The pattern type of the names: LITERAL (the default) or PREFIXED. With --list and "
        "--remove also ANY (this name, with either type) or MATCH (every pattern that matches "
        "such a resource; use --remove with care).",
    ),
    "operation": Flag(
        Argument.REQUIRED,
        "All (the default), Read, Write, Create, Delete, Alter, Describe, ClusterAction, "
        "DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens or "
        "TwoPhaseCommit.",
    ),
    "allow-principal": Flag(
        Argument.REQUIRED, "A principal to allow, as Type:name; User:'*' means all users."
    ),
    "deny-principal": Flag(
        Argument.REQUIRED, "A principal to deny; a denial overrides any permission."
    ),
    "allow-host": Flag(Argument.REQUIRED, "A host to allow the principals from (default: any)."),
    "deny-host": Flag(Argument.REQUIRED, "A host to deny the principals from (default: any)."),
    "principal": Flag(Argument.OPTIONAL, "With --list: only the ACLs of this principal."),
    "producer": Flag(
        Argument.NONE,
        "Add or remove the ACLs that a producer needs: Write, Describe and Create on the topics, "
        "Write and Describe on the transactional ids.",
    ),
    "consumer": Flag(
        Argument.NONE,
        "Add or remove the ACLs that a consumer needs: Read and Describe on the topics, Read on "
        "the groups.",
    ),
    "idempotent": Flag(Argument.NONE, "With --producer: also IdempotentWrite on the cluster."),
    "json": Flag(
        Argument.NONE,
        "With --list: print one JSON document, which 'acls import' and 'acls plan' read.",
    ),
    "force": Flag(Argument.NONE, "Do not ask for confirmation."),
    "help": Flag(Argument.NONE, "Print this help."),
    "version": Flag(Argument.NONE, "Print the version of authorizerd."),
}

_ACTIONS: Final = ("add", "remove", "list")
_INFERRED: Final = ("operation", "deny-principal", "deny-host")
_CONFLICTS: Final = (
    (
        "list",
        (
            *("producer", "consumer", "allow-host", "allow-principal"),
            *("deny-host", "deny-principal"),
        ),
    ),
    ("producer", _INFERRED),
    ("consumer", _INFERRED),
)
_WITH_LOG_DIR: Final = ("bootstrap-server", "bootstrap-controller", "command-config")
_HELP_COLUMN: Final = 33
_HELP_WIDTH: Final = 100


class Arguments:
    """The given flags, each with its values in order.

    Args:
        ignored: the words that are neither a flag nor a flag's value.
    """

    def __init__(self, values: Mapping[str, Sequence[str]], ignored: Sequence[str] = ()) -> None:
        self._values = values
        self.ignored: Final = tuple(ignored)

    def has(self, flag: str) -> bool:
        return flag in self._values

    def with_values(self, values: Mapping[str, Sequence[str]]) -> Arguments:
        return Arguments({**self._values, **values}, self.ignored)

    def values(self, flag: str) -> Sequence[str]:
        return self._values.get(flag, ())

    def value(self, flag: str) -> str | None:
        """Return a flag's value, or None if the flag has no value."""
        values = self.values(flag)
        if len(values) > 1:
            raise KafkaAclsError(
                (
                    "joptsimple.MultipleArgumentsForOptionException",
                    f"Found multiple arguments for option {flag}, but you asked for only one",
                )
            )
        return values[0] if values else None


def parse_arguments(words: Iterable[str]) -> Arguments:
    """Return the flags among ``words``."""
    values: dict[str, list[str]] = {}
    ignored: list[str] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            ignored += rest
            break
        if word == "-" or not word.startswith("-"):
            ignored.append(word)
            continue
        flag, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if flag not in FLAGS:
            # A single hyphen begins a group of one-letter flags. There are no such flags, so the
            # error names the first letter.
            raise UsageError(
                f"{flag if word.startswith('--') else word[1]} is not a recognized option"
            )
        given = _argument(flag, value if equals else None, rest)
        if not all(map(is_utf8, given)):
            raise UsageError(f"The value of option {flag} is not valid UTF-8")
        values.setdefault(flag, []).extend(given)
    return Arguments(values, ignored)


def _argument(flag: str, value: str | None, rest: deque[str]) -> list[str]:
    argument = FLAGS[flag].argument
    if argument is Argument.NONE:
        return []
    if value is not None:
        return [value]
    if argument is Argument.REQUIRED and not rest:
        raise UsageError(f"Option {flag} requires an argument")
    if argument is Argument.OPTIONAL and (
        not rest or (rest[0].startswith("-") and rest[0] not in ("-", "--"))
    ):
        return []
    return [rest.popleft()]


def check_arguments(given: Arguments) -> None:
    """Check that the flags can be combined; the checks run in kafka-acls' order."""
    _check_server(given)
    # The trailing space is part of kafka-acls' text.
    if sum(map(given.has, _ACTIONS)) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    for used, refused in _CONFLICTS:
        _check_conflicts(given, used, refused)
    _check_companions(given)


def _check_server(given: Arguments) -> None:
    if given.has("as-of") and not given.has("log-dir"):
        raise UsageError("The --as-of option is only available if --log-dir is set")
    if given.has("log-dir"):
        _check_conflicts(given, "log-dir", (*_WITH_LOG_DIR, "add", "remove"))
    elif given.has("bootstrap-server") and given.has("bootstrap-controller"):
        raise UsageError(
            "Only one of --bootstrap-server or --bootstrap-controller must be specified"
        )
    elif not (given.has("bootstrap-server") or given.has("bootstrap-controller")):
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")


def _check_conflicts(given: Arguments, used: str, refused: Iterable[str]) -> None:
    for flag in refused if given.has(used) else ():
        if given.has(flag):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{flag}]"')


def _check_companions(given: Arguments) -> None:
    for flag in ("principal", "json"):
        if given.has(flag) and not given.has("list"):
            raise UsageError(f"The --{flag} option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    if not given.has("consumer"):
        return
    consumes_only = not given.has("producer")
    if (
        not (given.has("topic") and given.has("group"))
        or (consumes_only and given.has("cluster"))
        or (consumes_only and given.has("transactional-id"))
    ):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def help_text(commands: Mapping[str, str]) -> str:
    """Return one paragraph for each flag, and a line for each command."""
    flags = [_describe(f"--{name}{flag.argument.value}", flag.help) for name, flag in FLAGS.items()]
    named = [_describe(f"acls {name}", text) for name, text in commands.items()]
    if named:
        named = ["\nOr one of these commands, which have their own --help:\n", *named]
    return "".join(flags + named)


def _describe(name: str, text: str) -> str:
    columns = shutil.get_terminal_size((_HELP_WIDTH, 0)).columns
    filled = textwrap.fill(
        text,
        max(2 * _HELP_COLUMN, min(columns, _HELP_WIDTH)),
        initial_indent=name.ljust(_HELP_COLUMN),
        subsequent_indent=" " * _HELP_COLUMN,
    )
    return f"{filled}\n"
