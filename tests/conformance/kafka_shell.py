"""Conversations with Kafka's metadata shell."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.kafka_rig.rig import Program, Rig

_PROMPT = ">> "
_NOT_LOADED = "offset -1,"
_TRIES_MAX = 30


def converse_with_kafka(rig: Rig, file: Path, lines: Sequence[str]) -> list[str]:
    """Return what Kafka's shell prints for each line, about a checkpoint or a segment.

    Sometimes it begins before it has loaded the file. Then the conversation is repeated.

    Raises:
        AssertionError: the shell fails, or never loads the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        # The shell locks the directory above.
        copy = Path(folder) / file.parent.name / file.name
        copy.parent.mkdir()
        shutil.copy(file, copy)
        for _ in range(_TRIES_MAX):
            loaded, *answers = _converse(rig, copy, ["cat /image/provenance", *lines])
            if not loaded.startswith(_NOT_LOADED):
                return answers
    raise AssertionError(f"Kafka's shell does not load {file}")


def _converse(rig: Rig, file: Path, lines: Sequence[str]) -> list[str]:
    written = "".join(f"{line}\n" for line in lines)
    main_class = Program.METADATA_SHELL.main_class
    done = rig.run_class(main_class, "--snapshot", file, written=written)
    assert done.exit_code == 0, done
    _, *answers, rest = done.stdout.split(_PROMPT)
    assert len(answers) == len(lines), (done.stdout[-2000:], done.stderr[-2000:])
    assert not rest.strip()
    return answers
