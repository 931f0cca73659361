"""End a command at SIGINT, SIGTERM or SIGHUP.

The daemon handles its signals by itself.

**Invariant:** one signal ends a command at once, and the exit status shows the signal, so that a
shell also ends a script or a loop around it. All three signals raise KeyboardInterrupt through the
current SIGINT handler: trio's own handler raises it at a safe point. Code that catches it must
re-raise it.

This module imports only what loads fast, because it runs before the command's imports.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNAL_EXIT: Final = 128
"""A shell's exit code for a command ended by a signal is this plus the signal's number."""

_received: list[int] = []


def end_without_words() -> None:
    """Make signals end this process without a traceback, until ``obey_signals`` is called.

    A script's shell starts background commands with SIGINT ignored. A deliberate SIGINT still ends
    them, as it does the daemon.
    """
    for number in SIGNALS:
        if number == signal.SIGINT or signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)


def obey_signals() -> None:
    """Raise KeyboardInterrupt at each signal from now on; nohup's ignored SIGHUP stays ignored."""
    _received.clear()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _received:
        end_by_signal()
    _received.append(number)
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler), "obey_signals and trio set functions"
    handler(signal.SIGINT, frame)


def is_ended() -> bool:
    """Return True if SIGTERM or SIGHUP has arrived, which must end a prompt as well."""
    return bool(_received)


def is_interrupt(error: BaseException) -> bool:
    """Return True if a signal is the cause. A nursery raises it in a group."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_interrupt, error.exceptions))
    return isinstance(error, KeyboardInterrupt)


@contextmanager
def saying(describe: Callable[[], str]) -> Iterator[None]:
    """If a signal ends the block, print the result of ``describe`` on standard error."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and (done := describe()):
            sys.stderr.write(f"authorizerd: interrupted: {done}\n")
            sys.stderr.flush()
        raise


@contextmanager
def set_at_signals() -> Iterator[threading.Event]:
    """Until the block ends, let signals do no more than set the event that this returns."""
    stopped = threading.Event()
    heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, lambda *_: stopped.set()) for each in heard}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by_signal() -> NoReturn:
    """Flush all output, then end this process by the signal that has arrived."""
    number = _received[0] if _received else signal.SIGINT
    for each in SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # errors can no longer be reported
            stream.flush()
    signal.raise_signal(number)
    os._exit(SIGNAL_EXIT + number)  # in a container, the kernel does not kill process 1
