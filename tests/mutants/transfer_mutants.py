"""Mutants of imports and exports: each loses an ACL in silence, or writes where it must not."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

TRANSFER_MUTANTS: Final = (
    Mutant(
        name="an export with losses is written although nobody has accepted them",
        file="cli/transfer/command.py",
        text="    stops = bool(losses) and not request.accept_losses\n",
        becomes="    stops = False\n",
        found_by="tests/cli/transfer/test_command.py::test_a_loss_stops_the_command_before_anything_is_written",
    ),
    Mutant(
        name="an export whose flags select nothing replaces a file",
        file="cli/transfer/command.py",
        text="    if request.selects is not None and request.overwrite and file.exists():\n",
        becomes="    if False:\n",
        found_by="tests/cli/transfer/test_command.py::test_export_that_selects_nothing_keeps_a_file",
    ),
    Mutant(
        name="a file is written that says something else than the ACLs",
        file="cli/transfer/text_place.py",
        text="    for acl in back.difference(acls):\n",
        becomes="    for acl in ():\n",
        found_by="tests/cli/transfer/test_text_place.py::test_text_that_says_something_else_is_not_written",
    ),
    Mutant(
        name="ALLOWs are created although a DENY was rejected",
        file="cli/transfer/cluster_place.py",
        text="        if progress.failure:\n            break\n",
        becomes="",
        found_by="tests/cli/transfer/test_cluster_place.py::test_a_rejected_denial_stops_the_import_before_any_allow",
    ),
    Mutant(
        name="an ALLOW is sent together with a DENY",
        file="cli/transfer/cluster_place.py",
        text="    for grants in (False, True):\n",
        becomes="    yield from split_batches(acls, lambda acl: acl)\n    for grants in ():\n",
        found_by="tests/cli/transfer/test_cluster_place.py::test_denials_are_acknowledged_before_the_first_allow_is_sent",
    ),
    Mutant(
        name="a log that another node owns is written to",
        file="cli/transfer/log_place.py",
        text="        claim_log_directory(self._log_dir, node_id=node_id, storage=self._storage)\n",
        becomes="",
        found_by="tests/cli/transfer/test_log_place.py::test_log_of_another_node_is_refused",
    ),
    Mutant(
        name="a crash leaves a part of an import",
        file="cli/transfer/log_place.py",
        text="    if len(batches) > 1:\n",
        becomes="    if False:\n",
        found_by="tests/cli/transfer/test_log_place.py::test_several_batches_become_visible_together",
    ),
    Mutant(
        name="credentials for one cluster are used for another",
        file="cli/transfer/arguments.py",
        text="    if len(clusters) == 1:\n        return clusters[0]\n",
        becomes="    if clusters:\n        return clusters[0]\n",
        found_by="tests/cli/transfer/test_command.py::test_arguments_that_cannot_be_combined_exit_with_2",
    ),
)
