"""The metadata shell on a terminal."""

import os
import pty
import re
import select
import stat
import sys
import termios
import time
from contextlib import closing
from pathlib import Path
from subprocess import Popen

from tools.example.log import write_log

SECONDS_MAX = 20


class Terminal:
    """A pseudo-terminal on which the shell runs."""

    def __init__(self, log_dir: Path, state: Path) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 70))
        words = [sys.executable, "-m", "authorizerd.cli", "shell", "--log-dir", str(log_dir)]
        environment = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(state)}
        environment.pop("COLUMNS", None)
        self.process: Popen[bytes] = Popen(
            words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
            # Ctrl-C needs a controlling terminal: the first one that a new session opens.
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.close(theirs)
        self.printed = ""

    def expect(self, text: str) -> str:
        """Read until ``text`` was printed; return all up to it that was not returned before."""
        while text not in self.printed:
            is_ready, _, _ = select.select([self._ours], [], [], SECONDS_MAX)
            assert is_ready, (text, self.printed)
            self.printed += os.read(self._ours, 4096).decode()
        before, _, self.printed = self.printed.partition(text)
        return re.sub("\\x1b\\[\\?2004[hl]|\r", "", before)

    def enter(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until it is shown: Python misses a signal just before it waits for a key."""
        give_up = time.monotonic() + SECONDS_MAX
        while "^C" not in self.printed:
            assert time.monotonic() < give_up, self.printed
            self.enter("\x03")
            if select.select([self._ours], [], [], 2)[0]:
                self.printed += os.read(self._ours, 4096).decode()
        self.expect("^C")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def test_conversation_on_a_terminal(tmp_path: Path) -> None:
    """The tab key completes, Ctrl-C drops a line, Ctrl-D leaves, and the history is kept."""
    write_log(tmp_path)
    state = tmp_path / "state"
    with closing(Terminal(tmp_path, state)) as terminal:
        assert terminal.expect(">> ").strip() == (
            f"[ {tmp_path} at offset 8. Type help for the commands. ]"
        )
        terminal.enter("cat /im\tfeat\tmeta\t\n")
        assert terminal.expect(">> ") == (
            "cat /image/features/metadataVersion \nOptional[4.4-IV2]\n"
        )
        terminal.enter("cd /image\n")
        terminal.expect(">> ")
        terminal.enter("ls\n")
        assert terminal.expect(">> ") == (
            "ls\n"
            "acls          cluster  delegationToken  producerIds  scram\n"
            "clientQuotas  configs  features         provenance   topics\n"
        )
        terminal.enter("ls nothing")
        terminal.expect("ls nothing")
        terminal.interrupt()
        terminal.expect(">> ")
        terminal.enter("\x04")
        assert terminal.process.wait(SECONDS_MAX) == 0
    history = state / "authorizerd" / "shell_history"
    assert history.read_text() == "cat /image/features/metadataVersion\ncd /image\nls\n"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
