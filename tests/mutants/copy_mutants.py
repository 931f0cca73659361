"""Mutants of the copy of a followed log: what makes it a state that the cluster has committed."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SCHEDULES: Final = (
    "tests/faults/test_copy_schedules.py"
    "::test_copy_is_a_state_of_the_cluster_after_any_crash_or_failure"
)
_COPY: Final = "tests/metadata/test_log_copy.py"

COPY_MUTANTS: Final = (
    Mutant(
        name="a copy of another cluster is followed",
        file="metadata/log_copy.py",
        text="if is_tied and self.cluster_id != cluster_id:",
        becomes="if is_tied and not cluster_id:",
        found_by=f"{_COPY}::test_copy_belongs_to_one_cluster",
    ),
    Mutant(
        name="a checkpoint of a copy's earlier state is used",
        file="metadata/log_copy.py",
        text="if self._replacements != self._begun_replacements:",
        becomes="if self._replacements < self._begun_replacements:",
        found_by=f"{_COPY}::test_checkpoint_of_a_replaced_state_is_dropped",
    ),
    Mutant(
        name="a snapshot is used before it is verified",
        file="metadata/copy_snapshot.py",
        text="        for _ in self.reader.batches():\n            pass\n",
        found_by=f"{_COPY}::test_incomplete_snapshot_changes_nothing",
    ),
    Mutant(
        name="a snapshot is named before it is durable",
        file="metadata/copy_snapshot.py",
        text="        self._file.sync()\n",
        found_by=_SCHEDULES,
    ),
    Mutant(
        name="the name of a copied file is not synced",
        file="metadata/copy_files.py",
        text="        self._storage.rename(part_of(checkpoint), checkpoint)\n"
        "        self._storage.sync_directory(self.directory)\n",
        becomes="        self._storage.rename(part_of(checkpoint), checkpoint)\n",
        found_by=_SCHEDULES,
    ),
    Mutant(
        name="a copy continues after missing records",
        file="metadata/log_copy.py",
        text="self._is_unknown, self._held = False, []",
        becomes='self._is_unknown, self.fault = False, ""',
        found_by=f"{_COPY}::test_copy_that_is_behind_is_still_a_state",
    ),
    Mutant(
        name="a copy continues after a snapshot that was kept in memory",
        file="metadata/log_copy.py",
        text="elif not self.fault:",
        becomes="elif self.fault:",
        found_by=(
            f"{_COPY}::test_copy_made_complete_while_a_snapshot_is_in_memory_is_behind_again"
        ),
    ),
    Mutant(
        name="a copy's segment is not synced before the next begins",
        file="metadata/segments.py",
        text="        if not self._is_synced:\n            self.sync()\n",
        found_by=_SCHEDULES,
    ),
    Mutant(
        name="batches are added to a copy that could not be removed",
        file="metadata/copy_files.py",
        text="        if is_unknown:\n            set_aside(self._log_dir, self._storage)\n",
        found_by=_SCHEDULES,
    ),
    Mutant(
        name="a copy's log that ends below its checkpoint is used",
        file="metadata/log.py",
        text="(expected < end or not file.position)",
        becomes="not file.position",
        found_by=_SCHEDULES,
    ),
    Mutant(
        name="an epoch that cannot follow is read over",
        file="metadata/log.py",
        text="                check_epoch(placed, self.progress.last_epoch)\n",
        found_by=f"{_COPY}::test_copy_that_cannot_be_trusted_is_set_aside",
    ),
    Mutant(
        name="a copy without what this version keeps is used",
        file="metadata/copy_files.py",
        text="if not end.is_empty and not is_ours:",
        becomes="if end.is_empty and not is_ours:",
        found_by=f"{_COPY}::test_copy_that_cannot_be_trusted_is_set_aside",
    ),
    Mutant(
        name="each start of a follower makes up other salts",
        file="daemon/sources/copy_directory.py",
        text="    secret = mark.secret or token_urlsafe()\n",
        becomes="    secret = token_urlsafe()\n",
        found_by="tests/daemon/sources/test_copy_directory.py::test_copy_keeps_its_secret",
    ),
    Mutant(
        name="a copy that is begun again loses the secret of its salts",
        file="metadata/copy_files.py",
        text="replace(self._mark, kept_records=KEPT_RECORDS)",
        becomes='replace(self._mark, kept_records=KEPT_RECORDS, secret="")',
        found_by="tests/daemon/sources/test_copy_directory.py::test_copy_keeps_its_secret",
    ),
    Mutant(
        name="an own log becomes a copy",
        file="daemon/sources/copy_directory.py",
        text="        if is_own:\n",
        becomes="        if not is_own and mark:\n",
        found_by="tests/daemon/sources/test_copy_directory.py::test_own_log_does_not_become_a_copy",
    ),
    Mutant(
        name="a copy becomes an own log",
        file="daemon/sources/own_log_directory.py",
        text="    refuse_copy(log_dir, storage)\n    check_format_is_finished",
        becomes="    check_format_is_finished",
        found_by="tests/daemon/sources/test_copy_directory.py::test_copy_does_not_become_an_own_log",
    ),
    Mutant(
        name="a disk that stays full ends the daemon",
        file="metadata/log_copy.py",
        text="                raise OSError(str(error)) from error\n",
        becomes="                raise\n",
        found_by="tests/daemon/sources/test_copy_checkpointer.py::test_copy_that_was_behind_is_completed",
    ),
    Mutant(
        name="reset-copy removes a copy in use",
        file="cli/log/reset_copy.py",
        text="    with locked(log_dir), saying(",
        becomes="    with saying(",
        found_by="tests/cli/log/test_reset_copy.py::test_copy_in_use_is_not_removed",
    ),
    Mutant(
        name="reset-copy removes an own log",
        file="cli/log/reset_copy.py",
        text="    if read_mark(log_dir) is None:\n",
        becomes="    if not log_dir:\n",
        found_by="tests/cli/log/test_reset_copy.py::test_own_log_is_not_removed",
    ),
    Mutant(
        name="check-log repairs a copy",
        file="cli/log/check_log.py",
        text="elif is_copy:",
        becomes="elif is_copy and not arguments:",
        found_by="tests/cli/log/test_check_log.py::test_copy_is_never_repaired",
    ),
    Mutant(
        name="every user may read a new log",
        file="metadata/storage.py",
        text="file_mode: int = 0o640",
        becomes="file_mode: int = 0o644",
        found_by=(
            "tests/daemon/sources/test_own_log_directory.py::test_log_is_private_to_its_user_and_group"
        ),
    ),
    Mutant(
        name="other users can read a copy",
        file="metadata/storage.py",
        text="Storage(file_mode=0o600, directory_mode=0o700)",
        becomes="Storage()",
        found_by=f"{_COPY}::test_only_the_owner_can_read_the_files",
    ),
)
