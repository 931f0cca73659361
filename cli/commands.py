"""The commands by name, with the module, function and help text of each.

**Invariant:** a command's module is imported when the command is chosen, and only in this module.
So ``--help`` loads no command, and a command does not load definitions that only others need.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, NoReturn

from authorizerd.cli.errors import CommandError
from authorizerd.cli.program.command_parser import CommandParser, LazyParser


class Command(NamedTuple):
    """A command.

    Attributes:
        module: below ``authorizerd.cli``.
        function: adds the arguments, and the function ``run``, to a parser. If ``reads_words``, it
            gets the words that follow the command, and returns the exit code.
        summary: the text in the help; None for an internal command.
        reads_words: True if the command parses its own words. argparse cannot parse flags as
            kafka-acls does; check-log and doctor exit with 1 for invalid arguments; replay is a
            separate program.
    """

    module: str
    function: str
    summary: str | None
    reads_words: bool = False

    def load(self) -> Callable[[Any], Any]:
        function: Callable[[Any], Any] = getattr(
            import_module(f"authorizerd.cli.{self.module}"), self.function
        )
        return function

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        if not self.reads_words:
            self.load()(parser)


COMMANDS: Final[dict[str, Command]] = {
    "serve": Command("daemon", "add_serve_arguments", "run the daemon"),
    "format": Command("log.format", "add_format_arguments", "create an empty log directory"),
    "worker": Command("daemon", "add_worker_arguments", None),  # only the daemon runs it
    "token": Command(
        "token", "add_token_arguments", "create a token for a caller of a decision port"
    ),
    "import-config": Command(
        "import_config",
        "add_import_arguments",
        "write a configuration that follows the cluster of a broker's server.properties",
    ),
    "reset-copy": Command(
        "log.reset_copy",
        "add_reset_arguments",
        "remove the local copy of a followed cluster's metadata",
    ),
    "backup": Command(
        "log.backup",
        "add_backup_arguments",
        "write the state of a log to one file, while it is in use",
    ),
    "restore": Command(
        "log.restore", "add_restore_arguments", "verify a backup, and replace a log with it"
    ),
    "features": Command(
        "log.features", "add_features_arguments", "show or raise the metadata.version of a log"
    ),
    "acls": Command(
        "commands", "run_acls", "list, add and remove ACLs, with the flags of kafka-acls", True
    ),
    "check-log": Command(
        "log.check_log", "run_check_log", "validate a metadata log, or repair it", True
    ),
    "doctor": Command(
        "doctor.command",
        "run_doctor",
        "find problems with the configuration, this machine and the followed cluster",
        True,
    ),
    "replay": Command(
        "commands", "become_replay", "check recorded traffic against other ACLs", True
    ),
    "verify": Command(
        "verify",
        "add_verify_arguments",
        "compare brokers' recorded decisions with the ACLs of their time",
    ),
    "review": Command(
        "review",
        "add_review_arguments",
        "write a page and a CSV for each owner of ACLs, to review who needs them",
    ),
    "explain": Command(
        "questions.explain",
        "add_explain_arguments",
        "show a decision, its reason, and what would change it",
    ),
    "who-can": Command(
        "questions.who_can", "add_who_can_arguments", "show who may do an operation on a resource"
    ),
    "what-can": Command(
        "questions.what_can", "add_what_can_arguments", "show what a principal may do, and where"
    ),
    "can": Command(
        "questions.who_can", "add_can_arguments", "show what a principal may do on one resource"
    ),
    "test": Command(
        "policy.arguments",
        "add_test_arguments",
        "run policy tests: assertions about access in YAML files",
    ),
    "routes": Command(
        "commands",
        "add_routes_commands",
        "check the routes by which a gateway asks for its users' requests",
    ),
    "history": Command(
        "questions.history",
        "add_history_arguments",
        "show when access changed, and by which change, as far back as a log reaches",
    ),
    "sync": Command(
        "sync.arguments",
        "add_sync_arguments",
        "keep the ACLs of a cluster as files and groups say, until a signal",
    ),
    "shell": Command(
        "shell.command", "add_shell_arguments", "browse a metadata log as folders and files"
    ),
    "docs": Command(
        "docs.command", "add_docs_arguments", "read the documentation of this version offline"
    ),
}

DAEMONS: Final = ("serve", "worker")
"""The commands that handle signals themselves."""

ACLS_COMMANDS: Final[Mapping[str, Command]] = {
    "plan": Command(
        "change.arguments", "add_plan_arguments", "show what files of desired ACLs would change"
    ),
    "apply": Command(
        "change.arguments", "add_apply_arguments", "make exactly the changes of a plan"
    ),
    "remove": Command(
        "change.arguments",
        "add_remove_arguments",
        "remove all ACLs of a principal or of a resource",
    ),
    "grant": Command(
        "grants.arguments", "add_grant_arguments", "grant something for a limited time"
    ),
    "grants": Command(
        "grants.listing", "add_grants_arguments", "list what is granted for a limited time"
    ),
    "compare-releases": Command(
        "change.releases",
        "add_compare_arguments",
        "show which ACLs mean something else in another Kafka release",
    ),
    "export": Command(
        "transfer.command",
        "add_export_command",
        "copy the ACLs of a cluster, a log or a file to another place",
    ),
    "import": Command(
        "transfer.command",
        "add_import_command",
        "add ACLs from elsewhere to a cluster, a log or a file",
    ),
}
"""The commands that may follow ``acls`` as its first word. kafka-acls ignores such words."""


ROUTES_COMMANDS: Final[Mapping[str, Command]] = {
    "check": Command(
        "routes.check",
        "add_check_arguments",
        "check a file of routes, run its tests, and show what a request would ask",
    ),
    "preset": Command(
        "routes.preset", "add_preset_arguments", "print the routes of a known product, or list all"
    ),
}
"""The commands that follow ``routes``."""

SUBCOMMANDS: Final[Mapping[str, Mapping[str, Command]]] = {
    "acls": ACLS_COMMANDS,
    "routes": ROUTES_COMMANDS,
}


def add_routes_commands(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, ROUTES_COMMANDS)


def run_acls(words: Sequence[str]) -> int:
    """Run one of ``ACLS_COMMANDS``, or else behave like kafka-acls; return the exit code."""
    if words and words[0] in ACLS_COMMANDS:
        parsed = new_acls_parser().parse_words(words)
        code: int = parsed.run(parsed)
        return code
    if words and not words[0].startswith("-"):
        from authorizerd.acl.text.typos import find_similar

        # Without this, the parser of kafka-acls would ignore the word and report a flag instead.
        meant = find_similar(words[0], ACLS_COMMANDS)
        if meant is not None:
            new_acls_parser().error(f"unknown command '{words[0]}' (did you mean {meant}?)")
    from authorizerd.cli.acls.command import run_kafka_acls

    return run_kafka_acls(words, {name: each.summary or "" for name, each in ACLS_COMMANDS.items()})


def new_acls_parser() -> CommandParser:
    parser = CommandParser(prog="authorizerd acls")
    add_commands(parser, ACLS_COMMANDS)
    return parser


def add_commands(parser: argparse.ArgumentParser, commands: Mapping[str, Command]) -> None:
    added = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=LazyParser)
    for name, command in commands.items():
        # argparse would list an internal command if ``help`` were passed as None.
        listed: dict[str, Any] = {} if command.summary is None else {"help": command.summary}
        added.add_parser(name, add_arguments=command.add_arguments, **listed)


# -P: a folder named "authorizerd" in the working directory must not be imported.
REPLAY: Final = ("-P", "-m", "authorizerd.replay")
# Neither pyspark nor its pandas is checked: Spark may be installed elsewhere, or not be needed.
_MODULES: Final = ("jinja2", "pyarrow", "yaml")
# These commands run without the extra. If `usage` or `whatif` needs Spark, the error names the
# extra.
_WITHOUT_EXTRA: Final = frozenset(("package", "report", "usage", "whatif"))
_HELP: Final = frozenset(("-h", "--help"))


def become_replay(words: Sequence[str]) -> NoReturn:
    """Replace this process with the separate program ``authorizerd.replay``, with these arguments.

    It keeps the process id, so it receives the signals and sets the exit code.
    """
    missing = [name for name in _MODULES if find_spec(name) is None]
    if (
        missing and _WITHOUT_EXTRA.isdisjoint(words[:1]) and _HELP.isdisjoint(words)
    ):  # help must work without the extra
        pip = f"{sys.executable} -m pip install 'authorizerd[replay-local]'"
        with_spark = "'authorizerd[replay]' has Spark as well"
        raise CommandError(
            f"replay: not installed: {', '.join(missing)}. Run: {pip} ({with_spark})"
        )
    # exec would discard output that Python still buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *REPLAY, *words])  # noqa: S606 - ourselves
