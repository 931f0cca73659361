"""``authorizerd serve``: run the daemon."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from authorizerd.cli.configuration_file import read_configuration
from authorizerd.config.configuration import Configuration
from authorizerd.config.hints import find_exposed_tokens, find_file_hints
from authorizerd.config.keys import describe_ignored_key
from authorizerd.daemon.lifespan import run_daemon
from authorizerd.daemon.logging.setup import log_to_standard_error, set_log_format
from authorizerd.daemon.sources.copy_directory import claim_copy_directory, prepare_copy_directory
from authorizerd.daemon.sources.own_log_directory import check_log_is_there, claim_log_directory
from authorizerd.metadata.lock import locked
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.metadata.storage import DISK, PRIVATE_DISK


def serve(config: Path, overrides: Sequence[str], ready_file: Path | None) -> None:
    log_to_standard_error()
    read = partial(read_configuration, config, overrides)
    configuration = read()
    set_log_format(configuration.log_format)
    warn_of(configuration)
    log_dir, follow = Path(configuration.metadata_log_dir), configuration.follow
    # Check this before locking, which would create the lock file in a directory without a log.
    if follow is None:
        check_log_is_there(log_dir)
    else:
        prepare_copy_directory(log_dir, PRIVATE_DISK)
    with locked(log_dir):
        run_daemon(configuration, read, _claim_directory(configuration), ready_file)


def _claim_directory(configuration: Configuration) -> MetaProperties:
    log_dir, node_id = Path(configuration.metadata_log_dir), configuration.node_id
    if configuration.follow is None:
        return claim_log_directory(log_dir, node_id=node_id, storage=DISK)
    kind = configuration.follow.kind
    return claim_copy_directory(log_dir, kind, node_id=node_id, storage=PRIVATE_DISK)


def warn_of(configuration: Configuration) -> None:
    """Warn about settings that work, but are probably mistakes."""
    logger = logging.getLogger("authorizerd")
    if configuration.ignored_keys:
        logger.warning(
            "unsupported keys are ignored: %s",
            ", ".join(map(describe_ignored_key, configuration.ignored_keys)),
        )
    for hint in (*find_file_hints(configuration), *find_exposed_tokens(configuration)):
        logger.warning("%s", hint)
    for path, key in _list_keystores(configuration).items():
        if _is_readable_by_all(path):
            logger.warning(
                "%s: %s: every user may read the private key: remove this permission (chmod o-rw),"
                " and replace the key and its certificate", key, path,
            )  # fmt: skip


def _list_keystores(configuration: Configuration) -> dict[str, str]:
    """Return the paths of all keystores, each with a key that names it.

    This includes the keystores of the ports and of the connections to a followed cluster.
    """
    follow = configuration.follow
    used = [*configuration.listener_tls.values(), configuration.http_tls]
    used.append(None if follow is None else follow.tls)
    stores = [each.keystore for each in used if each is not None]
    return {store.location: store.key_name for store in stores if store and store.location}


def _is_readable_by_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False  # reading it reports the reason
