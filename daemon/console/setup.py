"""Create the console from the daemon's parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import Layers
from authorizerd.daemon.console.cluster import describe_cluster
from authorizerd.daemon.console.handler import ROOT_PATH, Console
from authorizerd.daemon.console.pages.access import (
    WHAT_FIELDS,
    WHO_FIELDS,
    AccessPage,
    ask_what,
    ask_who,
)
from authorizerd.daemon.console.pages.acls import AclsPage, download_acls
from authorizerd.daemon.console.pages.changes import ChangesPage
from authorizerd.daemon.console.pages.live import LivePage
from authorizerd.daemon.console.pages.overview import OverviewPage
from authorizerd.daemon.console.pages.pictures import new_pages
from authorizerd.daemon.console.pages.plan import PlanPage
from authorizerd.daemon.console.pages.question import QuestionPage
from authorizerd.daemon.console.pages.verify import VerifyPage
from authorizerd.daemon.console.questions import Questions
from authorizerd.daemon.console.rendering import load_static_files, load_templates
from authorizerd.daemon.console.requests import COOKIE, SECURE_COOKIE
from authorizerd.daemon.console.visits import (
    CSV_SUFFIX,
    LINES_SUFFIX,
    Page,
)
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.queries.client import Queries
from authorizerd.daemon.queries.question_surface import EXPLAIN_PATH, HISTORY_PATH
from authorizerd.daemon.telemetry.activity import Activity
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.decisions.explanations import ExplanationAnswer
from authorizerd.protocol.decisions.past_answers import AnswerHistory
from authorizerd.protocol.http.rights import (
    ACLS,
    EXPLANATIONS,
    HISTORIES,
    NOTHING,
    OWN_SEARCHES,
    SEARCHES_OF_ALL,
    VERIFICATION,
    Needs,
)
from authorizerd.protocol.http.streamed import Handler

ACLS_PATH: Final = f"{ROOT_PATH}acls"
CHANGES_PATH: Final = f"{ROOT_PATH}changes"
PLAN_PATH: Final = f"{ROOT_PATH}plan"
NAVIGATION: Final = {
    ROOT_PATH: "Overview",
    f"{ROOT_PATH}live": "Live",
    f"{ROOT_PATH}explain": "Explain",
    f"{ROOT_PATH}who": "Who can",
    f"{ROOT_PATH}what": "What can",
    ACLS_PATH: "ACLs",
    f"{ROOT_PATH}history": "History",
    f"{ROOT_PATH}verify": "Verify",
}
"""The titles of the pages, by path, in the order of the links."""
ACLS_ONLY: Final = {
    CHANGES_PATH: "Changes",
    PLAN_PATH: "What if",
    f"{ROOT_PATH}matrix": "Matrix",
    f"{ROOT_PATH}reach": "Reach",
    f"{ROOT_PATH}risks": "Risks",
}
"""The pages that exist only if decisions depend on the ACLs alone, as those of Kafka's own
authorizer do."""
NEEDS: Final[Mapping[str, Needs]] = {
    ROOT_PATH: NOTHING,
    f"{ROOT_PATH}live": NOTHING,
    f"{ROOT_PATH}explain": EXPLANATIONS,
    f"{ROOT_PATH}who": SEARCHES_OF_ALL,
    f"{ROOT_PATH}what": OWN_SEARCHES,
    ACLS_PATH: ACLS,
    f"{ROOT_PATH}history": HISTORIES,
    f"{ROOT_PATH}verify": VERIFICATION,
    **dict.fromkeys(ACLS_ONLY, ACLS),
}
"""The rights that each page requires of logged-in visitors. *Live* also has ``DENIALS``."""


def load_console() -> None:
    """Load what all pages need. This blocks for about 50 ms: it compiles templates."""
    load_templates()


def new_console(
    configuration: Configuration,
    callers: Callers,
    decisions: Handler,
    readiness: Readiness,
    sources: MetricSources,
    addresses: Mapping[str, str],
    queries: Queries,
    activity: Activity,
    layers: Callable[[], Layers],
) -> Console:
    """Return the console with all its pages.

    Args:
        addresses: the bound addresses, by endpoint name.
        queries: the queries of the decision port.
        activity: the last hour.
        layers: returns the settings in force, by origin.
    """
    questions = Questions(configuration)
    who = AccessPage(questions, "who", WHO_FIELDS, ask_who)
    what = AccessPage(questions, "what", WHAT_FIELDS, ask_what)
    pages: dict[str, Page] = {
        ROOT_PATH: OverviewPage(configuration, readiness, sources, addresses, layers),
        f"{ROOT_PATH}live": LivePage(configuration, sources, activity),
        f"{ROOT_PATH}explain": QuestionPage(questions, "explain", EXPLAIN_PATH, ExplanationAnswer),
        f"{ROOT_PATH}who": who,
        f"{ROOT_PATH}what": what,
        ACLS_PATH: AclsPage(),
        f"{ROOT_PATH}history": QuestionPage(questions, "history", HISTORY_PATH, AnswerHistory),
        f"{ROOT_PATH}verify": VerifyPage(configuration),
    }
    navigation = dict(NAVIGATION)
    if isinstance(sources.authorizer, StandardAuthorizer):
        pages[PLAN_PATH] = PlanPage(configuration, sources.authorizer, queries)
        pages[CHANGES_PATH] = ChangesPage(CHANGES_PATH, sources.authorizer, queries)
        pictures = new_pages(configuration, sources.authorizer, queries)
        pages |= {f"{ROOT_PATH}{name}": page for name, page in pictures.items()}
        navigation |= ACLS_ONLY
    downloads: dict[str, Page] = {"who": who.download, "what": what.download, "acls": download_acls}
    pages |= {
        f"{ROOT_PATH}{name}{suffix}": page
        for name, page in downloads.items()
        for suffix in (CSV_SUFFIX, LINES_SUFFIX)
    }
    return Console(
        callers,
        decisions,
        load_static_files(),
        pages,
        navigation,
        partial(describe_cluster, configuration, sources),
        posted=frozenset((PLAN_PATH,)),
        log_in_only=frozenset(path for path, needs in NEEDS.items() if not needs.trusts),
        cookie=SECURE_COOKIE if configuration.admin_http.is_tls else COOKIE,
    )
