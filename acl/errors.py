"""The errors of ACLs, one class for each case that a caller may want to distinguish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizerd.image.errors import ChangeError

if TYPE_CHECKING:
    from authorizerd.acl.model import Acl


class AclError(Exception):
    """Base of the errors of this package."""


class InvalidAclError(AclError):
    """A creation or filter that Kafka answers with INVALID_REQUEST, mostly with Kafka's text."""


class UnsupportedAclError(InvalidAclError):
    """A creation that Kafka answers with UNSUPPORTED_VERSION, with Kafka's text."""


class PolicyViolationError(AclError):
    """A request that would write or report too much (POLICY_VIOLATION)."""


class StateMovedError(AclError):
    """The ACLs are not those that a request expects (INVALID_UPDATE_VERSION). It changes nothing.

    The text names the expected offset and the current one.
    """


class InvalidQuestionError(AclError):
    """A question that cannot be answered. It never leads to an allow."""


class SearchLimitError(AclError):
    """A search would list more than a limit. The text names the limit."""


class NotReadyError(AclError):
    """No ACLs are available, and the principal is not a super user (AUTHORIZER_NOT_READY).

    The text says why: they are not loaded yet, or stale, or decisions have stopped.
    """


class DuplicateIdError(ChangeError):
    """A change adds an id that is already present."""

    def __init__(self, id: bytes) -> None:
        super().__init__(f"an ACL with id {id.hex()} is already present")
        self.id = id


class DuplicateAclError(ChangeError):
    """A change adds a binding that is already present under another id."""

    def __init__(self, id: bytes, acl: Acl) -> None:
        super().__init__(f"the ACL with id {id.hex()} has the same binding as another ACL: {acl}")
        self.id = id
        self.acl = acl


class UnknownIdError(ChangeError):
    """A change removes an id that is not present."""

    def __init__(self, id: bytes) -> None:
        super().__init__(f"cannot remove the ACL with id {id.hex()}: there is none")
        self.id = id


class InvalidAsOfError(AclError):
    """A value that names no moment: it is neither an offset nor a time with its zone."""


class PastMismatchError(AclError):
    """The changes of the log did not produce the state from which they are undone.

    Undoing them would give a wrong state.
    """
