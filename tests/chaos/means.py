"""What some faults need: a network that only this run has, and a library in the daemon.

The network and the mounts are those of Linux namespaces, which end with their processes. Nothing
outside notices these faults, and nothing has to be undone if the run is killed. The library makes
faults of the disk and of the clock. It reads the numbers in a shared file at each call, so faults
begin and end while the processes run.
"""

import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

INSIDE: Final = "CHAOS_INSIDE"
"""The variable that is set in the namespaces."""

_MTU: Final = "1500"
"""That of the usual network, so that big messages take several packets."""

_PROBES: Final = (
    ("unshare", "--mount", "--net", "--"),
    ("unshare", "--user", "--map-root-user", "--mount", "--net", "--"),
)
SOURCE: Final = Path(__file__).with_name("shim.c")
_NUMBERS: Final = ("clock_step_ns", "write_errno", "sync_errno", "read_errno", "delay_us", "failed")
"""In the order of shim.c; ``failed`` counts calls."""
_NUMBER: Final = struct.Struct("=q")


def enter(module: str, arguments: Sequence[str]) -> str:
    """Run this module again in namespaces of its own, or return why that is not possible."""
    if os.environ.get(INSIDE):
        return ""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    reason = ""
    for probe in _PROBES:
        done = subprocess.run([*probe, "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(probe[0], [*probe, sys.executable, "-m", module, *arguments])
        reason = done.stderr.strip()
    return reason


class PrivateNetwork:
    """The loopback interface of the namespace, and faults of what is sent over it.

    Args:
        folder: for the lock of iptables; only root may use the usual one.

    Raises:
        OSError: the kernel lacks something; the text says what.
    """

    def __init__(self, folder: Path) -> None:
        os.environ["XTABLES_LOCKFILE"] = str(folder / "iptables.lock")
        self._iptables = shutil.which("iptables-legacy") or "iptables"
        _run("ip", "link", "set", "lo", "mtu", _MTU, "up")
        with self._dropping("--source", "127.0.0.2"):
            pass

    @contextmanager
    def losing(self, share: float) -> Iterator[None]:
        """Lose this share of all packets until the block ends."""
        with self._dropping("-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}"):
            yield

    @contextmanager
    def cut_off(self, ports: Sequence[int]) -> Iterator[None]:
        """Lose all packets to and from these ports until the block ends."""
        listed = ",".join(map(str, ports))
        with self._dropping("-p", "tcp", "-m", "multiport", "--ports", listed):
            yield

    @contextmanager
    def slow(self, kbit: int) -> Iterator[None]:
        """Carry only this many kbit/s until the block ends; queues are short."""
        queue = ("root", "tbf", "rate", f"{kbit}kbit", "burst", "16kb", "latency", "300ms")
        _run("tc", "qdisc", "add", "dev", "lo", *queue)
        try:
            yield
        finally:
            _run("tc", "qdisc", "del", "dev", "lo", "root")

    @contextmanager
    def _dropping(self, *rule: str) -> Iterator[None]:
        _run(self._iptables, "-A", "INPUT", *rule, "-j", "DROP")
        try:
            yield
        finally:
            _run(self._iptables, "-D", "INPUT", *rule, "-j", "DROP")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class Shim:
    """The library, and the file that controls it.

    Args:
        folder: for the library and the file.
        directory: only files in ``log`` below it have faults.
    """

    def __init__(self, folder: Path, directory: Path) -> None:
        library = folder / "shim.so"
        control = folder / "shim.control"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        control.write_bytes(bytes(_NUMBER.size * len(_NUMBERS)))
        with control.open("r+b") as file:
            self._numbers = mmap.mmap(file.fileno(), 0)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "CHAOS_CONTROL": str(control),
            "CHAOS_DIRECTORY": str(directory.resolve() / "log"),
        }

    @property
    def failed(self) -> int:
        """How many calls have failed so far."""
        [value] = _NUMBER.unpack_from(self._numbers, _NUMBER.size * _NUMBERS.index("failed"))
        return int(value)

    @contextmanager
    def having(self, name: str, value: int) -> Iterator[None]:
        """Have one fault until the block ends."""
        place = _NUMBER.size * _NUMBERS.index(name)
        _NUMBER.pack_into(self._numbers, place, value)
        try:
            yield
        finally:
            _NUMBER.pack_into(self._numbers, place, 0)


def find_compiler() -> bool:
    """Return whether this machine can build the library."""
    return shutil.which("cc") is not None
