"""The flags of ``serve`` and ``worker``. The modules that run them are imported only then."""

from __future__ import annotations

import argparse


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.flags import add_config_arguments, add_file

    parser.set_defaults(run=_serve)
    add_config_arguments(parser)
    text = "once the daemon is ready, write its addresses to this file as JSON"
    add_file(parser, "--ready-file", text)


def _serve(given: argparse.Namespace) -> int:
    from authorizerd.cli.serve import serve

    serve(given.config, given.override, given.ready_file)
    return 0


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    from authorizerd.daemon.workers.spawn import FEED_FLAG, QUESTIONS_FLAG

    parser.set_defaults(run=_work)
    parser.add_argument(FEED_FLAG, required=True, type=int, dest="feed")
    parser.add_argument(QUESTIONS_FLAG, type=int, dest="questions")


def _work(given: argparse.Namespace) -> int:
    if given.questions is not None:
        from authorizerd.daemon.queries.process import run_query_process

        run_query_process(given.feed, given.questions)
        return 0
    from authorizerd.daemon.logging.setup import log_to_standard_error
    from authorizerd.daemon.worker import run_worker

    log_to_standard_error(is_worker=True)
    run_worker(given.feed)
    return 0
