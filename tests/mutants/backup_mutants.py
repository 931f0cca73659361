"""Mutants of backups: what makes one whole, and what is restored exactly what it says."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_BACKUP: Final = "tests/metadata/backups/test_backup.py"
_RESTORE: Final = "tests/metadata/backups/test_restore.py"
_STATE: Final = "tests/metadata/test_log_state.py"

BACKUP_MUTANTS: Final = (
    Mutant(
        name="a backup lacks records without saying so",
        file="metadata/backups/backup.py",
        text="    if state.mark is None and state.foreign_types:\n",
        becomes="    if state.mark is None and not state:\n",
        found_by=f"{_BACKUP}::test_log_with_records_that_a_backup_would_lose_is_refused",
    ),
    Mutant(
        name="a backup is named before it is durable",
        file="metadata/backups/backup.py",
        text="            file.sync()\n",
        becomes="            pass\n",
        found_by=f"{_BACKUP}::test_names_become_durable_after_what_they_name",
    ),
    Mutant(
        name="the facts of a backup are not compared with its contents",
        file="metadata/backups/backup_reader.py",
        text="        if value != actual[name]:\n",
        becomes="        if name not in actual:\n",
        found_by=f"{_BACKUP}::test_contents_that_differ_from_the_facts_are_rejected",
    ),
    Mutant(
        name="the checksum in a backup is not compared",
        file="metadata/backups/backup_reader.py",
        text="    if before_footer != facts.sha256:\n",
        becomes="    if not before_footer:\n",
        found_by=f"{_BACKUP}::test_checksum_in_the_facts_is_compared",
    ),
    Mutant(
        name="a log whose owner starts meanwhile is read as if it had been shut down cleanly",
        file="metadata/live_files.py",
        text="    return has_started or not is_left\n",
        becomes="    return not is_left\n",
        found_by=f"{_STATE}::test_owner_that_starts_meanwhile_may_leave_an_unfinished_write",
    ),
    Mutant(
        name="offsets go back when a backup is restored",
        file="metadata/backups/restore_target.py",
        text="        end_offset = max(end_offset, old.next_offset + 1)\n",
        found_by=f"{_RESTORE}::test_log_continues_after_all_that_was_seen",
    ),
    Mutant(
        name="a backup of another cluster is restored without being told to",
        file="metadata/backups/restore_target.py",
        text="    if is_another and not is_other_cluster:\n",
        becomes="    if is_another and not properties:\n",
        found_by=f"{_RESTORE}::test_other_directories_are_refused",
    ),
    Mutant(
        name="a copy of a followed cluster is replaced by a backup",
        file="metadata/backups/restore_target.py",
        text="    if mark is not None:\n",
        becomes="    if mark is not None and not backup:\n",
        found_by=f"{_RESTORE}::test_copy_is_refused",
    ),
    Mutant(
        name="a log is restored among files that are not a log's",
        file="metadata/backups/restore_target.py",
        text="    if others and not any(name.startswith(of_a_log) for name in others):\n",
        becomes="    if not others and any(name.startswith(of_a_log) for name in others):\n",
        found_by="tests/cli/log/test_restore.py::test_directory_of_other_files_gets_no_log",
    ),
    Mutant(
        name="a restored log is not compared with the backup",
        file="metadata/backups/restore.py",
        text="    if read.content != state or counted != backup.facts.contents:\n",
        becomes="    if not read:\n",
        found_by=f"{_RESTORE}::test_log_that_lacks_an_acl_replaces_nothing",
    ),
    Mutant(
        name="a restored log takes its place before its name is durable",
        file="metadata/backups/restore.py",
        text="    storage.sync_directory(part)\n    like = ",
        becomes="    like = ",
        found_by="tests/faults/test_restore.py::test_crash_leaves_the_old_or_the_new_log",
    ),
    Mutant(
        name="a restored log is open to other users",
        file="metadata/backups/restore.py",
        text="    write_checkpoint(part, state, storage, like=like)",
        becomes="    write_checkpoint(part, state, storage)",
        found_by="tests/metadata/backups/test_restore.py"
        "::test_restored_log_has_the_permissions_of_the_replaced_one",
    ),
    Mutant(
        name="a second restore in the same second fails",
        file="metadata/backups/restore.py",
        text='        replaced = find_unused(log_dir / f"{REPLACED_PREFIX}{time}", storage)',
        becomes='        replaced = log_dir / f"{REPLACED_PREFIX}{time}"',
        found_by="tests/metadata/backups/test_restore.py"
        "::test_second_restore_in_the_same_second_keeps_both_logs",
    ),
)
