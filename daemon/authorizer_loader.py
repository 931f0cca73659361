"""Load the authorizer that ``authorizer.class.name`` names.

**Invariant:** an unusable class prevents the start. The daemon never falls back to another
authorizer, because it might allow more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any, Final

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import Authorizer
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.no_authorizer import NoAuthorizer
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import View
from authorizerd.config.values import STANDARD_AUTHORIZER
from authorizerd.daemon.errors import StartError

_KEY: Final = "authorizer.class.name"
_METHODS: Final = frozenset(name for name in vars(Authorizer) if not name.startswith("_"))

_logger = logging.getLogger(__name__)


def choose_authorizer(
    class_name: str, standard: DaemonAuthorizer, snapshot: View[AclSnapshot | None]
) -> DaemonAuthorizer:
    """Return ``standard``, or the authorizer that replaces it.

    Args:
        class_name: the configured value: Kafka's name for the built-in authorizer, the path of a
            Python class, or empty.

    Raises:
        StartError: the class does not exist, or is not an authorizer.
    """
    if class_name == STANDARD_AUTHORIZER:
        return standard
    if class_name:
        authorizer = _load(class_name, standard)
    else:
        authorizer = NoAuthorizer()
        _logger.warning("%s is empty: there is no authorizer, and everyone may do anything", _KEY)
    return PluggedAuthorizer(
        authorizer,
        name=class_name or "NoAuthorizer",
        snapshot=snapshot,
        on_failure=lambda error: _logger.error("%s failed", class_name, exc_info=error),
    )


def _load(class_name: str, standard: Authorizer) -> Authorizer:
    module_name, _, name = class_name.rpartition(".")
    made: Any = None
    try:
        make = getattr(import_module(module_name), name)
        missing: Collection[str] = getattr(make, "__abstractmethods__", ())
        if not missing:
            made = make(standard)
            missing = [method for method in _METHODS if not hasattr(type(made), method)]
    except ModuleNotFoundError as error:
        # An import inside the class's module may fail as well. The class name is wrong only if the
        # missing module is a prefix of its path.
        if error.name is not None and re.match(rf"{re.escape(error.name)}(\.|$)", module_name):
            raise _refusal(class_name, f"there is no module {error.name}") from error
        raise _refusal(class_name, str(error)) from error
    except BaseException as error:  # even SystemExit: a plugin must not end the daemon silently
        raise _refusal(class_name, f"{type(error).__name__}: {error}") from error
    if missing:
        methods = ", ".join(sorted(missing))
        raise _refusal(class_name, f"not an authorizer: it lacks the methods {methods}")
    authorizer: Authorizer = made
    return authorizer


def _refusal(class_name: str, reason: str) -> StartError:
    return StartError(f"{_KEY}: {class_name}: {reason}")
