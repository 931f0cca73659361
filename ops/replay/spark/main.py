"""The script that spark-submit runs: read the plan, start Spark, and run the job.

**Invariant:** only this module decides what a user sees of a fault: one line, with the trace in the
log. The script is copied out of its package, so it imports everything from the job's archive.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path

from authorizerd.replay.messages import EXIT_FAULT
from authorizerd.replay.spark.driver_output import MessageStream, trace, trace_warning
from authorizerd.replay.spark.failures import is_named, one_line
from authorizerd.replay.spark.probe import DRIVER_MODULES, missing_modules


def main(plan_name: str) -> int:
    """Run the job of the plan file that ``--files`` carried, and return its exit code."""
    # spark-submit prints both streams of a Python driver to standard output anyway.
    sys.stderr = MessageStream(sys.stdout)
    warnings.showwarning = trace_warning
    missing = missing_modules(DRIVER_MODULES)
    if missing:
        print(
            f"the driver's Python, {sys.executable}, lacks {', '.join(missing)}: install them",
            file=sys.stderr,
        )
        return EXIT_FAULT
    try:
        return _run(plan_name)
    except Exception as error:  # noqa: BLE001 - every fault is reported and logged
        if not is_named(error):
            trace(traceback.format_exc())
        print(one_line(error), file=sys.stderr)
        return EXIT_FAULT


def _run(plan_name: str) -> int:
    # Imported late: the modules that these need have been checked by now.
    from pyspark import SparkFiles

    from authorizerd.replay.plans import decode_plan
    from authorizerd.replay.spark.execution import run_plan
    from authorizerd.replay.spark.session import session_builder

    spark = session_builder("authorizerd replay").getOrCreate()
    try:
        # On YARN and Kubernetes, a driver in the cluster has the files in its working directory.
        carried = Path(SparkFiles.get(plan_name))
        plan = decode_plan((carried if carried.exists() else Path(plan_name)).read_bytes())
        return run_plan(spark, plan)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
