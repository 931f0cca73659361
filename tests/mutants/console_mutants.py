"""Mutants of the web console."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_HANDLER: Final = "tests/daemon/console/test_handler.py"
_RENDERING: Final = "tests/daemon/console/test_rendering.py"
_REQUESTS: Final = "tests/daemon/console/test_requests.py"
_SESSIONS: Final = "tests/daemon/console/test_sessions.py"
_SLOTS: Final = "tests/daemon/decisions/test_slots.py"
_EXPORTS: Final = "tests/daemon/queries/test_tables.py"
_ACCESS: Final = "tests/daemon/console/pages/test_access.py"
_HOSTS: Final = "tests/daemon/queries/test_search_hosts.py"

CONSOLE_MUTANTS: Final = (
    Mutant(
        name="names are printed as HTML",
        file="daemon/console/rendering.py",
        text="        autoescape=True,\n",
        becomes="        autoescape=False,\n",
        found_by=f"{_RENDERING}::test_hostile_name_is_only_text",
    ),
    Mutant(
        name="control characters and marks of direction are printed",
        file="daemon/console/rendering.py",
        text="        return escape_unprintable(value)\n",
        becomes="        return value\n",
        found_by=f"{_RENDERING}::test_hostile_name_is_only_text",
    ),
    Mutant(
        name="a page is rendered in one turn",
        file="daemon/console/rendering.py",
        text="await collect(parts)",
        becomes="parts",
        found_by=f"{_RENDERING}::test_long_page_is_rendered_in_turns",
    ),
    Mutant(
        name="a page of another site may ask questions",
        file="daemon/console/handler.py",
        text="        if is_refused_as_foreign(request):\n",
        becomes="        if is_refused_as_foreign(request) and not request.body:\n",
        found_by=f"{_HANDLER}::test_page_of_another_site_is_refused",
    ),
    Mutant(
        name="the origin of a form is ignored",
        file="daemon/console/requests.py",
        text="    return origin is not None and origin.partition",
        becomes="    return False and origin.partition",
        found_by=f"{_REQUESTS}::test_pages_of_other_sites_may_only_link_to_pages",
    ),
    Mutant(
        name="a log-in leads to any address",
        file="daemon/console/handler.py",
        text=" if path in self._pages and _QUERY.fullmatch(query) else ROOT_PATH\n",
        becomes=" if path or _QUERY.fullmatch(query) else ROOT_PATH\n",
        found_by=f"{_HANDLER}::test_log_in_leads_to_a_page_of_the_console",
    ),
    Mutant(
        name="tokens may be guessed at any rate",
        file="daemon/console/handler.py",
        text="            await self._limit.delay()\n",
        becomes="",
        found_by=f"{_HANDLER}::test_wrong_tokens_are_slow_and_keep_nobody_out",
    ),
    Mutant(
        name="the session of a removed token becomes valid with the token again",
        file="daemon/console/handler.py",
        text="                self._sessions.close(secret)\n                token = None\n",
        becomes="                token = None\n",
        found_by=f"{_HANDLER}::test_removed_token_ends_its_sessions",
    ),
    Mutant(
        name="a spreadsheet computes names",
        file="daemon/queries/tables.py",
        text="""    return f"'{cell}" if is_odd or (first and first in _FORMULA) else cell\n""",
        becomes="    return cell\n",
        found_by=f"{_EXPORTS}::test_cell_is_never_a_formula",
    ),
    Mutant(
        name="a spreadsheet with other separators computes parts of names",
        file="daemon/queries/tables.py",
        text="""    cell = _AFTER_SEPARATOR.sub(r"\\1'", cell)\n""",
        becomes="",
        found_by=f"{_EXPORTS}::test_no_part_of_a_cell_is_a_formula",
    ),
    Mutant(
        name="a refusal is kept by the browser",
        file="daemon/console/handler.py",
        text="            headers += (_NO_STORE,)\n",
        becomes="            pass\n",
        found_by=f"{_HANDLER}::test_every_answer_forbids_foreign_code",
    ),
    Mutant(
        name="plain HTTP may set the cookie of a console with TLS",
        file="daemon/console/setup.py",
        text="        cookie=SECURE_COOKIE if configuration.admin_http.is_tls else COOKIE,\n",
        becomes="        cookie=COOKIE,\n",
        found_by=f"{_HANDLER}::test_only_tls_has_a_cookie_that_plain_http_cannot_set",
    ),
    Mutant(
        name="an access review leaves out whom one host is denied",
        file="daemon/console/pages/access.py",
        text="""    return {**questions.context(fields), "list_hosts": True}\n""",
        becomes="""    return {**questions.context(fields), "list_hosts": False}\n""",
        found_by=f"{_ACCESS}::test_results_are_shown",
    ),
    Mutant(
        name="a principal that is denied from one host is denied from all",
        file="daemon/queries/access_rows.py",
        text="    nowhere = (NO_HOST, None) if query.host is None else (None, query.host)\n",
        becomes="    nowhere = (NO_HOST, None)\n",
        found_by=f"{_ACCESS}::test_denial_from_the_asked_host_says_nothing_about_others",
    ),
    Mutant(
        name="a search hides principals, and the page says that nobody else may",
        file="daemon/console/templates/who.html.jinja",
        text=" and not fields.search %}",
        becomes=" %}",
        found_by=f"{_ACCESS}::test_others_are_ruled_out_only_by_what_is_shown",
    ),
    Mutant(
        name="an access review leaves out everyone else",
        file="daemon/queries/access_rows.py",
        text="    if is_first and everyone is not None:\n",
        becomes="    if everyone is not None and not everyone.any:\n",
        found_by=f"{_ACCESS}::test_downloads_agree_with_every_decision",
    ),
    Mutant(
        name="a search with hosts leaves out denied principals",
        file="protocol/decisions/search_pages.py",
        text="            everyone_except=tuple(excluded),\n",
        becomes="            everyone_except=tuple(excluded[:SHOWN_EXCEPTIONS_MAX]),\n",
        found_by=f"{_HOSTS}::test_everyone_has_hosts_and_all_exceptions_are_listed",
    ),
    Mutant(
        name="a page of long names is written in one long step",
        file="acl/search/subjects.py",
        text="        is_long = characters > PAGE_CHARACTERS_MAX and",
        becomes="        is_long = characters < 0 and",
        found_by=f"{_HOSTS}::test_page_with_long_names_or_many_hosts_ends_early",
    ),
    Mutant(
        name="an answer has hosts of any length",
        file="protocol/decisions/search_results.py",
        text="    if access.characters > HOST_CHARACTERS_MAX:\n",
        becomes="    if access.count > HOST_CHARACTERS_MAX:\n",
        found_by=f"{_HOSTS}::test_hosts_of_absurd_length_are_refused",
    ),
    Mutant(
        name="a session that is used never ends",
        file="daemon/console/sessions.py",
        text=" or now - self.begun >= SECONDS_MAX\n",
        becomes="\n",
        found_by=f"{_SESSIONS}::test_used_session_ends_after_its_longest_time",
    ),
    Mutant(
        name="an unused session never ends",
        file="daemon/console/sessions.py",
        text="        return now - self.used >= IDLE_SECONDS or",
        becomes="        return",
        found_by=f"{_SESSIONS}::test_idle_session_ends",
    ),
    Mutant(
        name="a name in the audit log fakes a principal",
        file="daemon/audit/lines.py",
        text="    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:\n",
        becomes="    if not _MARKERS:\n",
        found_by="tests/daemon/audit/test_lines.py::test_name_with_a_marker_leaves_the_line_unread",
    ),
    Mutant(
        name="a line of many markers is matched for minutes",
        file="daemon/audit/lines.py",
        text="""\
    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:
        return None
    without = remove_caller(line)
    found = None if without is None else _LINE.match(without[0])
""",
        becomes="""\
    found = _LINE.match(line)
    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:
        return None
""",
        found_by="tests/daemon/audit/test_lines.py::test_line_with_too_many_markers_is_not_matched",
    ),
    Mutant(
        name="failed log-ins keep everyone out",
        file="daemon/console/handler.py",
        text="        if self._callers.identify(token) is None:\n",
        becomes="""\
        if self._limit.is_reached or self._callers.identify(token) is None:
""",
        found_by=f"{_HANDLER}::test_wrong_tokens_are_slow_and_keep_nobody_out",
    ),
    Mutant(
        name="any number of failed log-ins waits",
        file="daemon/console/handler.py",
        text="            if self._limit.is_reached:\n",
        becomes="            if self._limit is None:\n",
        found_by=f"{_HANDLER}::test_wrong_tokens_are_slow_and_keep_nobody_out",
    ),
    Mutant(
        name="everyone on the machine sees names of the audit log",
        file="protocol/http/rights.py",
        text='"see denials of others", trusts=False)',
        becomes='"see denials of others")',
        found_by="tests/end_to_end/test_console.py"
        "::test_live_page_counts_decisions_and_shows_trusted_visitors_no_names",
    ),
    Mutant(
        name="anyone with a token sees denials of others",
        file="daemon/console/pages/live.py",
        text="            caller.check(DENIALS)\n",
        becomes="            pass\n",
        found_by="tests/end_to_end/test_console.py::test_denials_need_a_file_and_a_right",
    ),
    Mutant(
        name="candidates are judged without the right to read",
        file="protocol/http/rights.py",
        text='Needs(Right.READ, Right.READ, "list or watch ACLs",',
        becomes='Needs(Right.SEARCH, Right.READ, "list or watch ACLs",',
        found_by="tests/daemon/console/pages/test_plan.py::test_right_to_read_is_necessary",
    ),
    Mutant(
        name="anyone who may search may read a history",
        file="daemon/queries/question_surface.py",
        text='("History", HISTORIES)',
        becomes='("History", EXPLANATIONS)',
        found_by="tests/daemon/decisions/test_past_requests.py"
        "::test_question_about_the_past_needs_the_right_to_read",
    ),
    Mutant(
        name="anyone gets explanations",
        file="daemon/queries/question_surface.py",
        text="        self._check(requester, self._needs, question.principal)\n",
        becomes="",
        found_by="tests/daemon/queries/test_search_rights.py"
        "::test_explanation_shows_acls_so_it_needs_the_right_to_search",
    ),
)
