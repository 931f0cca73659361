"""The SCRAM credentials that clients are checked against: those in the log, and made-up ones.

**Invariant:** an unknown user gets a made-up credential, with which authentication always fails. It
is the same after each restart, and it is computed for every lookup, even for known users. So
neither an answer nor its timing reveals which users exist. Two followers of one cluster derive
different credentials.

Source: RFC 5802, section 5.1 (the salt of unknown users); Kafka 4.3 ScramFormatter, whose salts and
default iterations the made-up credentials have.
"""

from __future__ import annotations

import hmac
import os
from typing import Final, NamedTuple

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.protocol.records.scram import (
    ITERATIONS_MIN,
    SALT_BITS,
    ScramMechanism,
    encode_salt,
)

_SECRET_BYTES: Final = 32


class Candidate(NamedTuple):
    """A credential to check a client against; if ``is_known`` is False, the check must fail."""

    credential: ScramCredential
    is_known: bool


class LoginCredentials:
    """Look up credentials in the newest image.

    Args:
        snapshot: None until the log is loaded.
        secret: the key from which made-up credentials are derived.
    """

    def __init__(
        self,
        image: View[ClusterImage],
        snapshot: View[AclSnapshot | None],
        secret: bytes,
    ) -> None:
        self._image = image
        self._snapshot = snapshot
        self._secret = secret

    @property
    def are_loaded(self) -> bool:
        return self._snapshot.newest is not None

    async def wait_until_loaded(self) -> None:
        """Wait until the log is loaded: until then, the image may have removed credentials."""
        await self._snapshot.wait_until(lambda snapshot: snapshot is not None)

    def look_up(self, user: str, mechanism: ScramMechanism) -> Candidate:
        """Return the user's credential, or a made-up one.

        A credential that Kafka would refuse to use counts as missing.
        """
        made_up = self._make_up(user, mechanism)
        known = self._image.newest.credentials.get((user, mechanism))
        # Check the made-up credential as well, so that the work is the same.
        is_usable = _is_usable(made_up if known is None else known, mechanism)
        if known is None or not is_usable:
            return Candidate(made_up, is_known=False)
        return Candidate(known, is_known=True)

    def _make_up(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        login = f"{mechanism.text} {user}".encode()
        digest = hmac.digest(self._secret, b"salt of " + login, "sha256")
        # The keys are never shown, and no proof matches them, so their content does not matter.
        key = hmac.digest(self._secret, b"key of " + login, mechanism.hash_name)
        salt = encode_salt(int.from_bytes(digest) >> (8 * len(digest) - SALT_BITS))
        return ScramCredential(salt, stored_key=key, server_key=key, iterations=ITERATIONS_MIN)


def _is_usable(credential: ScramCredential, mechanism: ScramMechanism) -> bool:
    size = mechanism.hash_bytes
    return (
        credential.iterations >= ITERATIONS_MIN
        and len(credential.stored_key) == size
        and len(credential.server_key) == size
    )


def derive_secret(properties: MetaProperties) -> bytes:
    """Return a secret derived from the copy's secret or the log directory's id.

    No answer contains these. Directories from before Kafka 3.7 have no id, and get a new secret at
    each start.
    """
    if properties.secret:  # the id of a copy's cluster may become known later
        return properties.secret.encode()
    if not properties.directory_id:
        return os.urandom(_SECRET_BYTES)
    purpose = f"SCRAM credentials of unknown users in {properties.cluster_id}"
    return hmac.digest(properties.directory_id.encode(), purpose.encode(), "sha256")
