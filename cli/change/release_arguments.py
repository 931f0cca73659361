"""The flags of ``authorizerd acls compare-releases``. What runs it is imported once it runs."""

from __future__ import annotations

import argparse

from authorizerd.acl.releases import Release
from authorizerd.cli.acl_source import ReadBrokers, add_source_arguments
from authorizerd.cli.change.traffic_arguments import add_traffic_logs
from authorizerd.cli.questions.answers import add_json_argument


def add_compare_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command.

    Args:
        read_brokers: as for ``add_source_arguments``.
    """
    parser.set_defaults(run=_run, traffic_report=None)
    releases = [str(release) for release in Release]
    for flag, name, default in (
        ("--from", "before", Release.KAFKA_4_3),
        ("--to", "after", Release.KAFKA_4_4),
    ):
        parser.add_argument(
            flag,
            dest=name,
            choices=releases,
            default=str(default),
            help=f"the release of Kafka that judges {name}; 4.3 stands for 4.0 to 4.3 "
            "(default: %(default)s)",
        )
    add_json_argument(parser)
    add_traffic_logs(
        parser.add_argument_group("recorded requests"),
        "audit logs, or directories of them: show the recorded requests whose answer changes",
    )
    add_source_arguments(parser, read_brokers)


def _run(arguments: argparse.Namespace) -> int:
    from authorizerd.cli.change.releases import compare_releases

    return compare_releases(arguments)
