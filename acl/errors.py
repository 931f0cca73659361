"""What can be wrong with ACLs, one class for each thing that a caller may want to tell apart."""

from __future__ import annotations

from authorizerd.acl.model import Acl
from authorizerd.image.errors import ChangeError


class AclError(Exception):
    """Base of the errors of this package."""


class InvalidAclError(AclError):
    """A creation or filter that Kafka answers with INVALID_REQUEST; the text is Kafka's."""


class PolicyViolationError(AclError):
    """A request too large for one metadata batch (POLICY_VIOLATION); the text is Kafka's."""


class InvalidQuestionError(AclError):
    """A question that cannot be asked; it is never answered with an allow."""


class NotReadyError(AclError):
    """The ACLs are not loaded yet, and the principal is no super user (AUTHORIZER_NOT_READY)."""


class DuplicateIdError(ChangeError):
    def __init__(self, id: bytes) -> None:
        super().__init__(f"an ACL with id {id.hex()} is already present")
        self.id = id


class DuplicateAclError(ChangeError):
    def __init__(self, id: bytes, acl: Acl) -> None:
        super().__init__(f"the ACL with id {id.hex()} repeats a binding that is present: {acl}")
        self.id = id
        self.acl = acl


class UnknownIdError(ChangeError):
    def __init__(self, id: bytes) -> None:
        super().__init__(f"no ACL with id {id.hex()} is present to be removed")
        self.id = id
