"""Create the parts of the audit from the configuration. Reconfigure, reload and close them.

**Invariant:** the secret for masked names is read from its file, and is never shown.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from authorizerd.acl.audit.mask import Masker, Masking
from authorizerd.actors.audit_log import EVENTS_PER_SLICE, AuditLog
from authorizerd.actors.auditor import Auditor
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.audit.file import AuditFile, AuditLock
from authorizerd.daemon.audit.format import AuditFormatter
from authorizerd.daemon.audit.stream import AuditStream
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.secret_file import Forbidden, read_secret_file

KEY: Final = "authorizerd.audit.log"
SECRET_KEY: Final = "authorizerd.audit.mask.secret.file"  # noqa: S105 - the key, not a secret
SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 4096
EVENTS_MASKED_PER_SLICE: Final = 48
"""Masking a name takes four times as long as the rest of its line, so slices are shorter."""
STANDARD_STREAMS: Final = {"stdout": 1, "stderr": 2}

_logger = logging.getLogger("authorizerd")


class Audit:
    """The audit log, its output and its settings.

    Args:
        target: a path, or the name of a standard stream.
        secret: the key for the hashes of names.
        turns: the lock shared by all processes that write to the output.

    Raises:
        StartError: the output is unusable.
    """

    def __init__(
        self, configuration: Configuration, target: str, secret: bytes, turns: AuditLock
    ) -> None:
        self._configuration: Final = configuration
        self.turns: Final = turns
        self._formatter: Final = AuditFormatter(
            configuration.audit_format, _new_masker(configuration, secret)
        )
        self._output: Final = _open_output(target, turns)
        self.log: Final = AuditLog(
            self._output,
            format_event=self._formatter,
            events_max=configuration.audit_queue_max,
            events_per_slice=(
                EVENTS_PER_SLICE if self._formatter.masker is None else EVENTS_MASKED_PER_SLICE
            ),
            on_failure=partial(
                _logger.error, "audit log %s: lines cannot be written now: %s", target
            ),
            on_recovery=partial(
                _logger.warning, "audit log %s: lines are written again; lost meanwhile: %d", target
            ),
            on_loss=partial(_logger.error, "audit log %s: lines lost at the end: %d", target),
        )
        self.auditor: Final = Auditor(
            self.log,
            level=configuration.audit_level,
            rules=configuration.audit_rules,
            now_s=time.time,
        )

    @property
    def secret(self) -> bytes:
        """The secret in force, empty if nothing is masked."""
        masker = self._formatter.masker
        return b"" if masker is None else masker.secret

    def apply_settings(self, settings: Configuration) -> None:
        """Use the audit's level and rules in ``settings`` from now on."""
        self.auditor.reconfigure(settings.audit_level, settings.audit_rules)

    def prepare_reload(self) -> Callable[[], None]:
        """Read the secret again. Return a function that applies it and reopens the file.

        Reading blocks.

        Raises:
            StartError: the secret's file is unusable.
        """
        return partial(self.use_secret, _read_secret_of(self._configuration))

    def use_secret(self, secret: bytes) -> None:
        """Replace the secret for hashes, and reopen the file."""
        self._formatter.masker = _new_masker(self._configuration, secret)
        self._output.reopen()

    def close(self) -> None:
        """Close the output and the lock."""
        self._output.close()
        self.turns.close()


def open_audit(
    configuration: Configuration, secret: bytes | None = None, turns: int | None = None
) -> Audit | None:
    """Open the audit. Return None if none is configured.

    Args:
        secret: in a worker, the daemon's current secret.
        turns: in a worker, the descriptor of the daemon's ``AuditLock``.

    Raises:
        StartError: the output or the secret's file is unusable.
    """
    target = configuration.audit_log
    if target is None:
        return None
    secret = _read_secret_of(configuration) if secret is None else secret
    return Audit(configuration, target, secret, AuditLock(turns))


def _open_output(target: str, turns: AuditLock) -> AuditFile | AuditStream:
    if target in STANDARD_STREAMS:
        return AuditStream(STANDARD_STREAMS[target], turns, is_ours=False)
    try:
        if _is_stream(target):
            # Open without blocking, so that a pipe without a reader is an error, not a hang.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            return AuditStream(os.open(target, flags), turns, is_ours=True)
        return AuditFile(target, turns)
    except FileNotFoundError as error:
        raise StartError(f"{KEY}: {target}: its directory does not exist: create it") from error
    except OSError as error:
        raise StartError(f"{KEY}: {target}: {error.strerror or error}") from error


def _is_stream(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _new_masker(configuration: Configuration, secret: bytes) -> Masker | None:
    maskings = _maskings_of(configuration)
    return Masker(**maskings, secret=secret) if maskings else None


def _maskings_of(configuration: Configuration) -> Mapping[str, Masking]:
    """Return the masking of each kind of name, or an empty mapping if none is masked."""
    maskings = {
        "principal": configuration.audit_mask_principal,
        "host": configuration.audit_mask_host,
        "resource": configuration.audit_mask_resource,
    }
    return {} if set(maskings.values()) == {Masking.NONE} else maskings


def _read_secret_of(configuration: Configuration) -> bytes:
    """Return the secret from the configured file, or ``b""`` if nothing is masked."""
    path = configuration.audit_mask_secret_file
    return read_secret(path) if path is not None and _maskings_of(configuration) else b""


def read_secret(path: str) -> bytes:
    """Return the content of a secret's file, without a final line feed.

    Raises:
        StartError: it cannot be read, others may use it, or it is too short or too long.
    """
    data = read_secret_file(
        path, key=SECRET_KEY, bytes_max=SECRET_BYTES_MAX + 1, forbidden=Forbidden.ANYTHING
    )
    secret = data.removesuffix(b"\n")
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        bounds = f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}"
        raise StartError(f"{SECRET_KEY}: {path}: expected a secret of {bounds} bytes")
    return secret
