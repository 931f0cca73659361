"""Mutants of the log: what makes it durable, and what keeps damage from being believed."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

LOG_MUTANTS: Final = (
    Mutant(
        name="an append is acknowledged without its sync",
        file="metadata/writer.py",
        text="self._file.append(pieces)\n        self._file.sync()",
        becomes="self._file.append(pieces)",
        found_by="tests/end_to_end/test_durability.py::test_an_acknowledgement_follows_the_sync",
    ),
    Mutant(
        name="the disk's sync of a file does nothing",
        file="metadata/storage.py",
        text="os.fdatasync(self._descriptor)",
        becomes="pass",
        found_by="tests/metadata/test_storage.py::test_a_sync_reaches_the_kernel",
    ),
    Mutant(
        name="the disk's sync of a directory does nothing",
        file="metadata/storage.py",
        text="        os.fsync(self._descriptor)",
        becomes="        id(self._descriptor)",
        found_by="tests/metadata/test_storage.py::test_a_sync_reaches_the_kernel",
    ),
    Mutant(
        name="what is cut off a file is not synced",
        file="metadata/storage.py",
        text="os.ftruncate(descriptor, size)\n            os.fsync(descriptor)",
        becomes="os.ftruncate(descriptor, size)",
        found_by="tests/metadata/test_storage.py::test_a_sync_reaches_the_kernel",
    ),
    Mutant(
        name="the name of a new segment is not synced",
        file="metadata/writer.py",
        text="            directory.sync()\n",
        becomes="",
        found_by=(
            "tests/metadata/test_writer.py"
            "::test_a_segments_name_is_durable_before_anything_stands_in_it"
        ),
    ),
    Mutant(
        name="what a killed process left is built upon without a sync",
        file="metadata/writer.py",
        text="            self._sync_what_was_read()\n",
        becomes="",
        found_by=(
            "tests/metadata/test_writer.py"
            "::test_what_a_killed_process_left_is_synced_before_the_log_goes_on"
        ),
    ),
    Mutant(
        name="writing goes on after an error of the log",
        file="metadata/writer.py",
        text="self._is_whole = False\n        try:",
        becomes="try:",
        found_by="tests/metadata/test_writer.py::test_after_an_error_nothing_more_is_written",
    ),
    Mutant(
        name="what another process has written is written over",
        file="metadata/writer.py",
        text="            self._check_alone()\n",
        becomes="",
        found_by=(
            "tests/metadata/test_writer.py"
            "::test_nothing_is_written_where_another_process_has_written"
        ),
    ),
    Mutant(
        name="what went into a file that was replaced is acknowledged",
        file="metadata/writer.py",
        text="        self._check_written()\n",
        becomes="",
        found_by=(
            "tests/metadata/test_writer.py"
            "::test_what_is_written_into_another_file_is_not_acknowledged"
        ),
    ),
    Mutant(
        name="an append that found no descriptor ends the log",
        file="metadata/writer.py",
        text="if error.errno in SHORTAGES:",
        becomes="if not error.errno:",
        found_by=(
            "tests/metadata/test_writer.py"
            "::test_an_append_that_wants_a_new_file_in_vain_leaves_the_log_as_it_was"
        ),
    ),
    Mutant(
        name="a torn tail is left where the log goes on",
        file="metadata/writer.py",
        text="if progress.torn_tail is not None:",
        becomes="if progress.torn_tail is not None and False:",
        found_by=(
            "tests/metadata/test_writer.py::test_a_torn_tail_is_cut_before_anything_is_written"
        ),
    ),
    Mutant(
        name="a transaction that was left open is not aborted",
        file="metadata/writer.py",
        text="if replay.is_transaction_open:",
        becomes="if False:",
        found_by="tests/metadata/test_writer.py::test_an_open_transaction_is_aborted",
    ),
    Mutant(
        name="the mark of a clean shutdown stays while the log is written",
        file="metadata/writer.py",
        text="        self._remove_clean_shutdown_mark()\n",
        becomes="",
        found_by=("tests/metadata/test_writer.py::test_the_clean_mark_goes_before_the_first_write"),
    ),
    Mutant(
        name="a checkpoint gets its name before it is synced",
        file="metadata/checkpoint_writer.py",
        text="            file.sync()\n        storage.rename(part, path)",
        becomes="        storage.rename(part, path)",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py"
            "::test_it_gets_its_name_once_it_is_whole_and_durable"
        ),
    ),
    Mutant(
        name="the name of a checkpoint is not synced",
        file="metadata/checkpoint_writer.py",
        text="    storage.sync_directory(directory)\n    return path",
        becomes="    return path",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py"
            "::test_it_gets_its_name_once_it_is_whole_and_durable"
        ),
    ),
    Mutant(
        name="a segment goes before the checkpoint in its place is durable",
        file="metadata/checkpoint_writer.py",
        text="        storage.sync_directory(directory)\n        for path in paths:",
        becomes="        for path in paths:",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py"
            "::test_nothing_goes_for_a_checkpoint_whose_name_is_not_durable"
        ),
    ),
    Mutant(
        name="one segment too many goes with a checkpoint",
        file="metadata/checkpoint_writer.py",
        text="segments[1].base_offset <= checkpoints[0].end_offset",
        becomes="segments[0].base_offset <= checkpoints[0].end_offset",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py::test_only_as_much_goes_as_the_bound_asks_for"
        ),
    ),
    Mutant(
        name="the newest checkpoint goes as well",
        file="metadata/checkpoint_writer.py",
        text="while len(checkpoints) > 1 and (",
        becomes="while checkpoints and (",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py"
            "::test_the_newest_checkpoint_and_what_follows_it_stay"
        ),
    ),
    Mutant(
        name="a checkpoint is written that loses what is not kept here",
        file="daemon/sources/own_log_writer.py",
        text="        if foreign:\n",
        becomes="        if not self:\n",
        found_by="tests/daemon/sources/test_own_log_writer.py::test_a_log_with_records_of_other_kinds_gets_none",
    ),
    Mutant(
        name="a batch is believed whatever its CRC",
        file="protocol/records/batch.py",
        text="if found != crc:",
        becomes="if found < 0:",
        found_by=(
            "tests/metadata/test_recovery.py::test_a_bad_crc_in_a_complete_batch_is_damage_anywhere"
        ),
    ),
    Mutant(
        name="a gap in the offsets is read over",
        file="metadata/log.py",
        text=(
            'raise corrupt(placed, expected, f"base offset {batch.base_offset}")\n'
            "                expected ="
        ),
        becomes="pass\n                expected =",
        found_by="tests/metadata/test_log.py::test_a_gap_or_an_overlap_is_refused",
    ),
    Mutant(
        name="an epoch may go back",
        file="metadata/epochs.py",
        text="if epoch < before:",
        becomes="if epoch < 0:",
        found_by="tests/metadata/test_log.py::test_an_epoch_that_goes_back_is_refused",
    ),
    Mutant(
        name="an epoch may begin without its LeaderChange",
        file="metadata/epochs.py",
        text="if not begins_epoch:",
        becomes="if False:",
        found_by="tests/metadata/test_log.py::test_an_epoch_that_did_not_begin_is_refused",
    ),
    Mutant(
        name="an epoch may begin that none can follow",
        file="metadata/epochs.py",
        text="if epoch == EPOCH_MAX:",
        becomes="if epoch < 0:",
        found_by="tests/metadata/test_log.py::test_an_epoch_that_did_not_begin_is_refused",
    ),
    Mutant(
        name="a checkpoint is believed under another's name",
        file="metadata/checkpoint.py",
        text="self.header.end_offset not in (None, named)",
        becomes="self.header.end_offset in ()",
        found_by="tests/metadata/test_checkpoint.py::test_a_checkpoint_under_another_s_name_is_refused",
    ),
    Mutant(
        name="a checkpoint of Kafka's is believed wherever its name puts it",
        file="metadata/log.py",
        text="                self._check_place(checkpoint, reader.header)\n",
        becomes="",
        found_by="tests/metadata/test_checkpoint.py::test_a_checkpoint_of_kafka_s_is_held_against_the_log",
    ),
    Mutant(
        name="a torn tail is cut after a clean shutdown",
        file="metadata/log.py",
        text="not files.was_shut_down_cleanly",
        becomes="True",
        found_by="tests/metadata/test_recovery.py::test_nothing_is_torn_after_a_clean_shutdown",
    ),
    Mutant(
        name="a torn tail is cut in the middle of the log",
        file="metadata/log.py",
        text="following is None and self._may_be_torn",
        becomes="self._may_be_torn",
        found_by="tests/metadata/test_recovery.py::test_a_segment_that_another_follows_is_whole",
    ),
    Mutant(
        name="a log that has lost its end is believed",
        file="metadata/log.py",
        text="        self._check_nothing_is_missing(end)\n",
        becomes="",
        found_by="tests/metadata/test_log.py::test_a_log_that_ends_before_its_checkpoint_is_refused",
    ),
    Mutant(
        name="a FIFO in a file's place is waited for",
        file="metadata/storage.py",
        text="            _check_regular(descriptor, path)\n",
        becomes="",
        found_by="tests/metadata/test_storage.py::test_only_files_are_opened",
    ),
    Mutant(
        name="a checkpoint without its footer is believed",
        file="metadata/checkpoint.py",
        text="        if not is_ended:\n",
        becomes="        if not self:\n",
        found_by="tests/metadata/test_log.py::test_without_its_header_or_footer_it_is_refused",
    ),
    Mutant(
        name="the end of the log is read from the kernel's memory",
        file="metadata/batch_file.py",
        text="if from_disk:",
        becomes="if from_disk and False:",
        found_by="tests/metadata/test_log.py::test_the_end_of_a_log_in_use_is_read_from_the_disk",
    ),
    Mutant(
        name="a transaction shows before its end",
        file="metadata/replay.py",
        text=(
            "case AclAdded() | AclRemoved():\n"
            "                    (self._shown if self._open is None else self._open)"
        ),
        becomes="case AclAdded() | AclRemoved():\n                    self._shown",
        found_by=(
            "tests/metadata/test_replay.py"
            "::test_a_transaction_over_several_batches_shows_at_its_end_only"
        ),
    ),
    Mutant(
        name="an aborted transaction shows",
        file="metadata/replay.py",
        text='self._close("is aborted")',
        becomes='self._shown += self._close("is aborted")',
        found_by="tests/metadata/test_replay.py::test_an_aborted_transaction_never_shows",
    ),
    Mutant(
        name="the lock of the log directory is not taken",
        file="metadata/lock.py",
        text="fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        becomes="pass",
        found_by=(
            "tests/metadata/test_lock.py::test_a_directory_that_another_process_holds_is_refused"
        ),
    ),
    Mutant(
        name="two daemons share the lock",
        file="metadata/lock.py",
        text="fcntl.LOCK_EX",
        becomes="fcntl.LOCK_SH",
        found_by=(
            "tests/metadata/test_lock.py::test_it_keeps_other_processes_out_until_its_block_ends"
        ),
    ),
)
