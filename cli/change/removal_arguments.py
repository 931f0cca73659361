"""The flags of ``authorizerd acls remove``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse

from authorizerd.cli.acl_source import ReadBrokers
from authorizerd.cli.change.apply_arguments import add_batches_argument
from authorizerd.cli.configuration_file import add_broker_arguments
from authorizerd.cli.profile import use_profile
from authorizerd.cli.questions.answers import add_json_argument
from authorizerd.cli.selection_flags import add_selection_flags
from authorizerd.cli.source_settings import add_setting_arguments


def add_remove_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command.

    Args:
        read_brokers: as for ``add_source_arguments``.
    """
    parser.set_defaults(
        run=_run, refuse=parser.error, read_brokers=read_brokers, kafka_release=None,
        **dict.fromkeys(("log_dir", "acls", "config", "override", "as_of", "plan")),
    )  # fmt: skip
    add_selection_flags(
        parser.add_argument_group(
            "which ACLs: flags of principals and of resources narrow each other"
        )
    )
    parser.add_argument("--force", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show the ACLs, and remove nothing")
    add_batches_argument(parser)
    add_json_argument(parser)
    group = parser.add_argument_group("where the ACLs are")
    add_broker_arguments(group, "Removing ACLs needs ALTER and DESCRIBE on the cluster")
    add_setting_arguments(group)


def _run(arguments: argparse.Namespace) -> int:
    use_profile(arguments)
    if arguments.bootstrap_server is None:
        arguments.refuse("expected --bootstrap-server HOST:PORT, or a profile")
    from authorizerd.cli.change.removal import remove_acls

    return remove_acls(arguments)
