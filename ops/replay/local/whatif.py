"""Run ``replay whatif`` on audit logs in this process.

**Invariant:** ``whatif.json`` and the exit code are those of the Spark job.
"""

from __future__ import annotations

from pathlib import Path

from authorizerd.replay.judging.index import build_index
from authorizerd.replay.local.comparing import compare, report_comparison
from authorizerd.replay.local.running import (
    print_lines,
    read_accepted,
    remove_earlier,
    write_result,
)
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.report import summary_lines


def run_whatif(logs: IngestPlan, plan: WhatIfPlan) -> int:
    """Write ``whatif.json``; return 3 if anything is newly denied, else 0. Blocks.

    Raises:
        NeedsSparkError: the logs are too much for one process.
        TrafficError: they cannot be read or are not accepted, or a result cannot be written.
    """
    out = Path(plan.out)
    # Spark also writes the directory "changes"; one of an earlier run would contradict this result.
    remove_earlier(out / "whatif.json", out / "changes")
    traffic = read_accepted(logs)
    baseline = None if plan.baseline is None else build_index(plan.baseline)
    comparison = compare(traffic.tuples, baseline, build_index(plan.candidate))
    report = report_comparison(traffic, plan.baseline, plan.candidate, comparison)
    write_result(out / "whatif.json", encode_json(report))
    print_lines(summary_lines(report))
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE
