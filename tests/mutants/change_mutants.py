"""Mutants of changes that expect a state: the guard of the queue, and its field on the wire."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CHANGE_MUTANTS: Final = (
    Mutant(
        name="a change is made although an ACL has changed since",
        file="acl/expected_offset.py",
        text="    if changed_at > expected_offset:\n",
        becomes="    if offset < expected_offset:\n",
        found_by="tests/actors/test_change_guards.py::test_change_by_another_client_rejects_the_whole_request",
    ),
    Mutant(
        name="a change slips in behind another one that is not written yet",
        file="acl/updates.py",
        text="            self.changed_at = self.snapshot.offset + 1  # after",
        becomes="            pass  # after",
        found_by="tests/actors/test_change_guards.py::test_requests_of_one_flush_see_each_other",
    ),
    Mutant(
        name="after a restart, every expected offset passes",
        file="actors/record_applier.py",
        text=(
            "                    self._note_change(message)\n"
            "                    await _load_changes"
        ),
        becomes="                    await _load_changes",
        found_by=(
            "tests/actors/test_change_guards.py"
            "::test_offsets_of_before_a_restart_pass_only_if_nothing_can_have_changed"
        ),
    ),
    Mutant(
        name="after a restart, changes before a checkpoint without ACLs are forgotten",
        file="daemon/origins/own_log.py",
        text="max(applier.acls_changed_at, progress.checkpoint_offset)",
        becomes="applier.acls_changed_at",
        found_by=(
            "tests/end_to_end/test_backup.py"
            "::test_offset_of_before_a_restore_is_rejected_although_no_acl_is_left"
        ),
    ),
    Mutant(
        name="a follower takes requests that expect an offset",
        file="daemon/kafka/acls.py",
        text="if expected_offset != ANY_OFFSET and self._authorizer.acl_offset() is None:",
        becomes="if not self:",
        found_by="tests/daemon/kafka/test_guarded_acls.py::test_custom_authorizer_checks_no_offset_by_default",
    ),
    Mutant(
        name="an expected offset of the wrong size is ignored",
        file="protocol/kafka/acl_types.py",
        text="        if reader.remaining != _OFFSET.size:\n",
        becomes=(
            "        if reader.remaining != _OFFSET.size:\n"
            '            reader.take(reader.remaining, "offset")\n'
            "            return ANY_OFFSET\n"
            "        if reader.remaining == 0:\n"
        ),
        found_by="tests/protocol/kafka/test_offset_tag.py::test_malformed_field_is_an_error_of_the_request",
    ),
    Mutant(
        name="a plan is applied to other ACLs than it was made for",
        file="cli/change/execution.py",
        text="changes).get(listed.digest)\n",
        becomes="changes).get(listed.digest, 0)\n",
        found_by="tests/cli/change/test_execution.py::test_moved_state_is_left_alone",
    ),
    Mutant(
        name="a plan does not expect the offset of its listing",
        file="cli/change/execution.py",
        text="await self._server.send(request, before.offset)\n",
        becomes="await self._server.send(request, None)\n",
        found_by="tests/cli/change/test_execution.py::test_races_are_rejected_or_reported",
    ),
    Mutant(
        name="a race on a broker is not noticed",
        file="cli/change/execution.py",
        text="            if after.digest == digest:\n",
        becomes="            if not compare(before.acls, request, after.acls).unseen:\n",
        found_by="tests/cli/change/test_execution.py::test_races_are_rejected_or_reported",
    ),
    Mutant(
        name="a change whose answer is lost is sent again without looking",
        file="kafka_client/client.py",
        text="            raise UnknownOutcomeError(str(error)) from error\n",
        becomes="            return await self.request(call, name=name, errors=lambda _: [])\n",
        found_by="tests/kafka_client/test_client.py::test_request_of_unknown_outcome_is_not_repeated",
    ),
)
