"""Mutants of answers about the past."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PAST: Final = "tests/daemon/decisions/test_past.py"
_REQUESTS: Final = "tests/daemon/decisions/test_past_requests.py"

PAST_MUTANTS: Final = (
    Mutant(
        name="a state of the past is dropped that a request has dropped in the meantime",
        file="daemon/decisions/past.py",
        text="while (offset := self._find_due()) is not None:",
        becomes="for offset in [n for n, kept in self._kept.items() if self._is_due(kept)]:",
        found_by=f"{_PAST}::test_states_are_dropped_while_a_request_drops_others",
    ),
    Mutant(
        name="anyone may ask about the past of others",
        file="daemon/decisions/authzen.py",
        text="""\
are those of now.\"\"\"
        self._check(requester, EVALUATIONS, question.principal)
""",
        becomes='are those of now."""\n',
        found_by=f"{_REQUESTS}::test_question_about_the_past_needs_the_right_to_read",
    ),
    Mutant(
        name="a question about the past needs no right to read",
        file="daemon/decisions/http_surface.py",
        text="        self._check(requester, PAST)\n",
        becomes="",
        found_by=f"{_REQUESTS}::test_question_about_the_past_needs_the_right_to_read",
    ),
    Mutant(
        name="an evaluation's own moment is ignored in a batch",
        file="daemon/decisions/authzen.py",
        text="if request.context is None or request.context.as_of != evaluation.context.as_of:",
        becomes="if request.context is evaluation.context is None:",
        found_by=f"{_REQUESTS}::test_moment_of_one_evaluation_is_not_ignored",
    ),
    Mutant(
        name="a log that belongs to another state is used for the past",
        file="acl/past.py",
        text="    if snapshot.acls.get(change.id) != change.acl:\n",
        becomes="    if change.id not in snapshot.acls:\n",
        found_by="tests/acl/test_past.py::test_change_that_does_not_fit_is_an_error",
    ),
    Mutant(
        name="a log that ends before the newest state is used for the past",
        file="metadata/history.py",
        text="    if newest is not None and first_pass.last.offset < newest:\n",
        becomes="    if newest is not None and first_pass.last.offset < 0:\n",
        found_by=f"{_PAST}::test_log_that_lags_is_not_used",
    ),
    Mutant(
        name="any number of changes is undone",
        file="metadata/history.py",
        text="if self._changes_max is not None and len(self._changes) > self._changes_max:",
        becomes="if self._changes_max is None and len(self._changes) > 9:",
        found_by=f"{_PAST}::test_changes_are_limited",
    ),
    Mutant(
        name="a checkpoint with missing records after it is used for the past",
        file="metadata/past.py",
        text="    return tuple(each for each in files.checkpoints if each.end_offset >= base)\n",
        becomes="    return tuple(each for each in files.checkpoints if base >= 0)\n",
        found_by="tests/metadata/test_past.py::test_checkpoint_before_a_gap_does_not_count",
    ),
    Mutant(
        name="a caller learns the names of new topics by a right that it had before",
        file="acl/search/names.py",
        text="    known_by = snapshot if describable is None else describable\n",
        becomes="    known_by = snapshot\n",
        found_by=f"{_REQUESTS}::test_names_of_today_are_shown_by_the_rights_of_now",
    ),
)
