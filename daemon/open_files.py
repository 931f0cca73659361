"""The limit of open files, raised to what all connections need: one that is out of files can write
neither its log nor a checkpoint, and ends.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

OTHER_FILES: Final = 512
"""For the log and its checkpoints, the audit log, workers, and connections that are refused."""

_logger = logging.getLogger("authorizerd")


def allow_open_files(connections: int) -> None:
    """Let this process have so many connections open; warn where the system does not."""
    wanted = connections + OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return
    if most != resource.RLIM_INFINITY and most < wanted:
        _logger.warning(
            "no more than %d files may be open, and max.connections needs %d: raise the hard limit,"
            " or lower max.connections",
            most,
            wanted,
        )
        wanted = most
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
