"""Mutants of what makes writes durable and detects damage: the log, copies of logs, backups."""

from typing import Final

from tests.mutants.mutant import Mutant

LOG_MUTANTS: Final = {
    # Log
    "an append is acknowledged without its sync": Mutant(
        file="metadata/writer.py",
        text="        before_sync()\n        self._segments.sync()",
        becomes="        before_sync()",
        found_by="tests/end_to_end/test_durability.py::test_acknowledgement_follows_the_sync",
    ),
    "the disk's sync of a file does nothing": Mutant(
        file="metadata/storage.py",
        text="os.fdatasync(self._descriptor)",
        becomes="pass",
        found_by="tests/metadata/test_storage.py::test_sync_reaches_the_kernel",
    ),
    "the disk's sync of a directory does nothing": Mutant(
        file="metadata/storage.py",
        text="        os.fsync(self._descriptor)",
        becomes="        id(self._descriptor)",
        found_by="tests/metadata/test_storage.py::test_sync_reaches_the_kernel",
    ),
    "a truncation is not synced": Mutant(
        file="metadata/storage.py",
        text="os.ftruncate(descriptor, size)\n            os.fsync(descriptor)",
        becomes="os.ftruncate(descriptor, size)",
        found_by="tests/metadata/test_storage.py::test_sync_reaches_the_kernel",
    ),
    "the name of a new segment is not synced": Mutant(
        file="metadata/segments.py",
        text="            directory.sync()\n",
        found_by="tests/metadata/test_writer.py::test_name_of_a_segment_is_durable_before_its_contents",
    ),
    "the data of a killed process is used without a sync": Mutant(
        file="metadata/segments.py",
        text="            self.sync()\n        self._storage.sync",
        becomes="            pass\n        self._storage.sync",
        found_by="tests/metadata/test_writer.py::test_records_of_a_killed_process_are_synced_first",
    ),
    "writing continues after an error of the log": Mutant(
        file="metadata/writer.py",
        text="self._is_whole = False\n        try:",
        becomes="try:",
        found_by="tests/metadata/test_writer.py::test_nothing_is_written_after_an_error",
    ),
    "data of another process is overwritten": Mutant(
        file="metadata/writer.py",
        text="            self._check_alone()\n",
        found_by="tests/metadata/test_writer.py::test_nothing_is_written_after_another_process_has_written",
    ),
    "a write to a replaced file is acknowledged": Mutant(
        file="metadata/writer.py",
        text="        self._check_written()\n",
        found_by="tests/metadata/test_writer.py::test_write_into_a_replaced_file_is_not_acknowledged",
    ),
    "a torn tail is kept in front of new batches": Mutant(
        file="metadata/segments.py",
        text="if progress.torn_tail is not None:",
        becomes="if progress.torn_tail is not None and False:",
        found_by="tests/metadata/test_writer.py::test_torn_tail_is_cut_before_the_first_write",
    ),
    "an open transaction is not aborted": Mutant(
        file="metadata/writer.py",
        text="if replay.is_transaction_open:",
        becomes="if False:",
        found_by="tests/metadata/test_writer.py::test_open_transaction_is_aborted",
    ),
    "a checkpoint gets its name before it is synced": Mutant(
        file="metadata/checkpoint_writer.py",
        text="            rest()\n        file.sync()\n",
        becomes="            rest()\n",
        found_by="tests/metadata/test_checkpoint_writer.py::test_checkpoint_is_durable_before_it_is_named",
    ),
    "the name of a checkpoint is not synced": Mutant(
        file="metadata/checkpoint_writer.py",
        text="    storage.sync_directory(directory)\n    return path",
        becomes="    return path",
        found_by="tests/metadata/test_checkpoint_writer.py::test_checkpoint_is_durable_before_it_is_named",
    ),
    "a segment is retired before its checkpoint is durable": Mutant(
        file="metadata/checkpoint_writer.py",
        text="        storage.sync_directory(directory)\n        for path in paths:",
        becomes="        for path in paths:",
        found_by="tests/metadata/test_checkpoint_writer.py::test_nothing_is_removed_if_the_checkpoints_name_is_not_durable",
    ),
    "the newest checkpoint is retired too": Mutant(
        file="metadata/checkpoint_writer.py",
        text="while len(checkpoints) > 1 and (",
        becomes="while checkpoints and (",
        found_by="tests/metadata/test_checkpoint_writer.py::test_newest_checkpoint_and_later_segments_stay",
    ),
    "a checkpoint is written that loses records of other kinds": Mutant(
        file="daemon/sources/own_log_writer.py",
        text="        if foreign:\n",
        becomes="        if not self:\n",
        found_by="tests/daemon/sources/test_own_log_writer.py::test_log_with_foreign_records_gets_no_checkpoint",
    ),
    "a batch is accepted with any CRC": Mutant(
        file="protocol/records/batch.py",
        text="if found != crc:",
        becomes="if found < 0:",
        found_by="tests/metadata/test_batch_file.py::test_complete_batch_with_a_bad_crc_is_damage",
    ),
    "a gap in the offsets is accepted": Mutant(
        file="metadata/log.py",
        text="raise corrupt(placed, expected, reason)\n        except",
        becomes="pass\n        except",
        found_by="tests/metadata/test_log.py::test_part_that_does_not_follow_the_one_before_it_is_rejected",
    ),
    "a torn tail is cut after a clean shutdown": Mutant(
        file="metadata/log.py",
        text="not files.was_shut_down_cleanly",
        becomes="True",
        found_by="tests/metadata/test_recovery.py::test_torn_tail_after_a_clean_shutdown_is_corruption",
    ),
    "a torn tail is cut in the middle of the log": Mutant(
        file="metadata/log.py",
        text="following is None and self._may_be_torn",
        becomes="self._may_be_torn",
        found_by="tests/metadata/test_recovery.py::test_torn_tail_before_another_segment_is_corruption",
    ),
    "a log without its end is accepted": Mutant(
        file="metadata/log.py",
        text="        self._check_nothing_is_missing(end)\n",
        found_by="tests/metadata/test_log.py::test_log_that_ends_before_its_checkpoint_is_rejected",
    ),
    "the end of the log is read from the page cache": Mutant(
        file="metadata/batch_file.py",
        text="if from_disk:",
        becomes="if from_disk and False:",
        found_by="tests/metadata/test_log.py::test_end_of_the_log_is_read_from_the_disk",
    ),
    "a transaction is visible before its end": Mutant(
        file="metadata/replay.py",
        text=(
            "case AclAdded() | AclRemoved():\n"
            "                    (self._visible if self._open is None else self._open)"
        ),
        becomes="case AclAdded() | AclRemoved():\n                    self._visible",
        found_by="tests/metadata/test_replay.py::test_records_become_visible_with_their_batch_or_transaction",
    ),
    "an aborted transaction is visible": Mutant(
        file="metadata/replay.py",
        text='self._close("is aborted")',
        becomes='self._shown += self._close("is aborted")',
        found_by="tests/metadata/test_replay.py::test_aborted_transaction_never_becomes_visible",
    ),
    "the lock of the log directory is not taken": Mutant(
        file="metadata/lock.py",
        text="fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        becomes="pass",
        found_by="tests/metadata/test_lock.py::test_directory_locked_by_another_process_is_rejected",
    ),
    "two daemons share the lock": Mutant(
        file="metadata/lock.py",
        text="fcntl.LOCK_EX",
        becomes="fcntl.LOCK_SH",
        found_by="tests/metadata/test_lock.py::test_lock_excludes_other_processes_until_its_block_ends",
    ),
    "a file that replaces another user's is open to this process's group": Mutant(
        file="metadata/storage.py",
        text="            mode &= stat.S_IRWXU",
        becomes="            mode &= 0o777",
        found_by="tests/metadata/test_storage.py::test_another_users_file_is_replaced_by_one_without_its_group",
    ),
    # Copy of a followed log
    "a copy of another cluster is followed": Mutant(
        file="metadata/log_copy.py",
        text="if is_tied and self.cluster_id != cluster_id:",
        becomes="if is_tied and not cluster_id:",
        found_by="tests/metadata/test_log_copy.py::test_copy_belongs_to_one_cluster",
    ),
    "a checkpoint of a copy's earlier state is used": Mutant(
        file="metadata/log_copy.py",
        text="if self._replacements != self._begun_replacements:",
        becomes="if self._replacements < self._begun_replacements:",
        found_by="tests/metadata/test_log_copy.py::test_checkpoint_of_a_replaced_state_is_dropped",
    ),
    "a snapshot is used before it is verified": Mutant(
        file="metadata/copy_snapshot.py",
        text="        for _ in self.reader.batches():\n            pass\n",
        found_by="tests/metadata/test_log_copy.py::test_incomplete_snapshot_changes_nothing",
    ),
    "a snapshot is named before it is durable": Mutant(
        file="metadata/copy_snapshot.py",
        text="        self._file.sync()\n",
        found_by="tests/faults/test_copy_schedules.py::test_copy_is_a_state_of_the_cluster_after_any_crash_or_failure",
    ),
    "a copy continues after missing records": Mutant(
        file="metadata/log_copy.py",
        text="self._is_unknown, self._held = False, []",
        becomes='self._is_unknown, self.fault = False, ""',
        found_by="tests/metadata/test_log_copy.py::test_copy_that_is_behind_is_still_a_state",
    ),
    "a copy's log that ends below its checkpoint is used": Mutant(
        file="metadata/log.py",
        text="(expected < end or not file.position)",
        becomes="not file.position",
        found_by="tests/faults/test_copy_schedules.py::test_copy_is_a_state_of_the_cluster_after_any_crash_or_failure",
    ),
    "an own log becomes a copy": Mutant(
        file="daemon/sources/copy_directory.py",
        text="        if is_own:\n",
        becomes="        if not is_own and mark:\n",
        found_by="tests/daemon/sources/test_copy_directory.py::test_own_log_does_not_become_a_copy",
    ),
    "a copy becomes an own log": Mutant(
        file="daemon/sources/own_log_directory.py",
        text="    refuse_copy(log_dir, storage)\n    check_format_is_finished",
        becomes="    check_format_is_finished",
        found_by="tests/daemon/sources/test_copy_directory.py::test_copy_does_not_become_an_own_log",
    ),
    "reset-copy removes a copy in use": Mutant(
        file="cli/log/reset_copy.py",
        text="    with locked(log_dir), saying(",
        becomes="    with saying(",
        found_by="tests/cli/log/test_restore.py::test_copy_in_use_is_not_removed",
    ),
    "reset-copy removes an own log": Mutant(
        file="cli/log/reset_copy.py",
        text="    if read_mark(log_dir) is None:\n",
        becomes="    if not log_dir:\n",
        found_by="tests/cli/log/test_restore.py::test_own_log_is_not_removed",
    ),
    "every user may read a new log": Mutant(
        file="metadata/storage.py",
        text="file_mode: int = 0o640",
        becomes="file_mode: int = 0o644",
        found_by="tests/daemon/sources/test_own_log_directory.py::test_log_is_private_to_its_user_and_group",
    ),
    "other users can read a copy": Mutant(
        file="metadata/storage.py",
        text="Storage(file_mode=0o600, directory_mode=0o700)",
        becomes="Storage()",
        found_by="tests/metadata/test_log_copy.py::test_only_the_owner_can_read_the_files",
    ),
    # Backups
    "a backup lacks records without saying so": Mutant(
        file="metadata/backups/backup.py",
        text="    if state.mark is None and state.foreign_types:\n",
        becomes="    if state.mark is None and not state:\n",
        found_by="tests/metadata/backups/test_backup.py::test_log_with_records_that_a_backup_would_lose_is_refused",
    ),
    "a backup is named before it is durable": Mutant(
        file="metadata/backups/backup.py",
        text="            file.sync()\n",
        becomes="            pass\n",
        found_by="tests/metadata/backups/test_backup.py::test_names_become_durable_after_what_they_name",
    ),
    "the checksum in a backup is not compared": Mutant(
        file="metadata/backups/backup_reader.py",
        text="    if before_footer != facts.sha256:\n",
        becomes="    if not before_footer:\n",
        found_by="tests/metadata/backups/test_backup.py::test_checksum_in_the_facts_is_compared",
    ),
    "a log whose owner starts meanwhile is read as if it had been shut down cleanly": Mutant(
        file="metadata/live_files.py",
        text="    return has_started or not is_left\n",
        becomes="    return not is_left\n",
        found_by="tests/metadata/test_log_state.py::test_owner_that_starts_meanwhile_may_leave_an_unfinished_write",
    ),
    "offsets go back when a backup is restored": Mutant(
        file="metadata/backups/restore_target.py",
        text="        end_offset = max(end_offset, old.next_offset + 1)\n",
        found_by="tests/metadata/backups/test_restore.py::test_log_continues_after_all_that_was_seen",
    ),
    "a backup of another cluster is restored without being told to": Mutant(
        file="metadata/backups/restore_target.py",
        text="    if is_another and not is_other_cluster:\n",
        becomes="    if is_another and not properties:\n",
        found_by="tests/metadata/backups/test_restore.py::test_other_directories_are_refused",
    ),
    "a restored log is not compared with the backup": Mutant(
        file="metadata/backups/restore.py",
        text="    if read.content != state or counted != backup.facts.contents:\n",
        becomes="    if not read:\n",
        found_by="tests/metadata/backups/test_restore.py::test_log_that_lacks_an_acl_replaces_nothing",
    ),
    "a restored log is open to other users": Mutant(
        file="metadata/backups/restore.py",
        text="    write_checkpoint(part, state, storage, like=like)",
        becomes="    write_checkpoint(part, state, storage)",
        found_by="tests/metadata/backups/test_restore.py::test_restored_log_has_the_permissions_of_the_replaced_one",
    ),
}
