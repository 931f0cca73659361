"""Mutants of answers about the past."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PAST: Final = "tests/daemon/queries/test_past_state.py"
_INDEX: Final = "tests/metadata/past/test_batch_index.py"
_REQUESTS: Final = "tests/daemon/decisions/test_past_requests.py"

PAST_MUTANTS: Final = (
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
        text="            self._check(requester, PAST)\n",
        becomes="            pass\n",
        found_by=f"{_REQUESTS}::test_question_about_the_past_needs_the_right_to_read",
    ),
    Mutant(
        name="an evaluation's own moment is ignored in a batch",
        file="daemon/decisions/authzen.py",
        text="if of_batch is None or of_batch.as_of != context.as_of:",
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
        file="metadata/past/history.py",
        text="    check_complete(first_pass.last.offset, newest)\n",
        becomes="",
        found_by=f"{_PAST}::test_log_that_lags_is_not_used",
    ),
    Mutant(
        name="a history is read in a log that ends before the newest state",
        file="daemon/queries/past_state.py",
        text="            check_complete(history.end.offset, now.offset)\n",
        becomes="",
        found_by=f"{_PAST}::test_history_knows_no_more_than_the_newest_state",
    ),
    Mutant(
        name="a history has changes that are not in force",
        file="daemon/queries/past_state.py",
        text="[change for change in history.changes if change.offset <= now.offset]",
        becomes="[*history.changes]",
        found_by=f"{_PAST}::test_history_knows_no_more_than_the_newest_state",
    ),
    Mutant(
        name="a history begins at a moment that is not in force",
        file="daemon/queries/past_state.py",
        text="""\
            offset = log.find_offset(as_of, newest=now.offset)
            history""",
        becomes="""\
            offset = log.find_offset(as_of)
            history""",
        found_by=f"{_PAST}::test_history_knows_no_more_than_the_newest_state",
    ),
    Mutant(
        name="a history keeps any number of ACLs",
        file="daemon/queries/past_state.py",
        text="            if selected > CHANGES_MAX:\n",
        becomes="            if selected > 9 * CHANGES_MAX + 9:\n",
        found_by=f"{_REQUESTS}::test_acls_that_a_history_keeps_are_limited",
    ),
    Mutant(
        name="a time is looked up in a log that ends before the newest state",
        file="metadata/past/past_log.py",
        text="                check_complete(last, newest)\n",
        becomes="                pass\n",
        found_by=f"{_PAST}::test_time_is_not_looked_up_in_a_log_that_lags",
    ),
    Mutant(
        name="any number of changes is undone",
        file="metadata/past/history.py",
        text="if self._changes_max is not None and len(self._changes) > self._changes_max:",
        becomes="if self._changes_max is None and len(self._changes) > 9:",
        found_by=f"{_PAST}::test_changes_are_limited",
    ),
    Mutant(
        name="a checkpoint with missing records after it is used for the past",
        file="metadata/past/past_log.py",
        text="    return tuple(each for each in files.checkpoints if each.end_offset >= base)\n",
        becomes="    return tuple(each for each in files.checkpoints if base >= 0)\n",
        found_by="tests/metadata/past/test_past_log.py::test_checkpoint_before_a_gap_does_not_count",
    ),
    Mutant(
        name="a caller learns the names of new topics by a right that it had before",
        file="acl/search/names.py",
        text="    known_by = snapshot if describable is None else describable\n",
        becomes="    known_by = snapshot\n",
        found_by=f"{_REQUESTS}::test_names_of_today_are_shown_by_the_rights_of_now",
    ),
    Mutant(
        name="reading of the past begins within a transaction",
        file="metadata/past/batch_index.py",
        text="if is_far and not is_transaction_open:",
        becomes="if is_far:",
        found_by=f"{_INDEX}::test_reading_does_not_begin_within_a_transaction",
    ),
    Mutant(
        name="a place of a log that was replaced is used for the past",
        file="metadata/past/batch_index.py",
        text="        if number and _is_there(self._places[number - 1], storage):\n",
        becomes="        if number:\n",
        found_by=f"{_INDEX}::test_log_that_was_replaced_is_read_anew",
    ),
    Mutant(
        name="a place in a file that was removed is used for the past",
        file="metadata/past/batch_index.py",
        text="        while self._places and self._places[0].path not in paths:\n",
        becomes="        while not paths:\n",
        found_by=f"{_INDEX}::test_removed_segments_are_forgotten",
    ),
    Mutant(
        name="a time is looked up as if no clock had ever been set back",
        file="metadata/past/batch_index.py",
        text="        elif batch.max_timestamp_ms < self._earliest_ms[-1]:\n",
        becomes="        elif batch.max_timestamp_ms < 0:\n",
        found_by=f"{_INDEX}::test_only_the_end_of_the_log_is_read_again",
    ),
    Mutant(
        name="a question about the past reads the whole log",
        file="metadata/past/past_log.py",
        text="lambda each: each.last_offset > offset, begin)\n",
        becomes="lambda each: each.last_offset > offset, None)\n",
        found_by=f"{_INDEX}::test_only_the_end_of_the_log_is_read_again",
    ),
    Mutant(
        name="the beginning of a transaction is left out before the wanted offset",
        file="metadata/past/past_log.py",
        text=" or _may_begin(placed.batch)):",
        becomes="):",
        found_by="tests/metadata/past/test_history.py"
        "::test_changes_of_a_transaction_are_visible_at_its_end",
    ),
    Mutant(
        name="a log is read in thousands of small pieces",
        file="metadata/batch_file.py",
        text="PIECE_BYTES: Final = 1 << 20\n",
        becomes="PIECE_BYTES: Final = 1 << 12\n",
        found_by="tests/metadata/test_batch_file.py::test_many_batches_are_read_at_once",
    ),
)
