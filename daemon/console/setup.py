"""Create the console from the daemon's parts."""

from __future__ import annotations

from authorizerd.config.configuration import Configuration
from authorizerd.daemon.console.handler import ROOT_PATH, Console
from authorizerd.daemon.console.pages.explain import ExplainPage
from authorizerd.daemon.console.pages.overview import OverviewPage
from authorizerd.daemon.console.questions import Questions
from authorizerd.daemon.console.rendering import load_static_files, load_templates
from authorizerd.daemon.console.visits import DecisionHandler, Page
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.telemetry.metrics import Measured
from authorizerd.daemon.telemetry.readiness import Readiness

NAVIGATION = {
    ROOT_PATH: "Overview",
    f"{ROOT_PATH}explain": "Explain",
}
"""The titles of the pages, by path, in the order of the links."""


def new_console(
    configuration: Configuration,
    callers: Callers,
    decisions: DecisionHandler,
    readiness: Readiness,
    measured: Measured,
) -> Console:
    """Return the console with all its pages. This blocks for some 50 ms: it compiles templates."""
    load_templates()
    questions = Questions(configuration)
    pages: dict[str, Page] = {
        ROOT_PATH: OverviewPage(configuration, readiness, measured),
        f"{ROOT_PATH}explain": ExplainPage(questions),
    }
    return Console(callers, decisions, load_static_files(), pages, NAVIGATION)
