"""Check the values that a third-party authorizer returns, before anything uses them.

**Invariant:** a value whose type KIP-504 does not allow raises AuthorizerFaultError here, before it
can cause another error elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.expected_offset import OFFSET_MAX
from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.acl.updates import Deleted
from authorizerd.actors.completion import Completion, Completions, ItemCompletions
from authorizerd.actors.errors import AuthorizerFaultError, SecurityDisabledError
from authorizerd.actors.published_state import NOT_LOADED

Value = TypeVar("Value")

_ACLS_PER_SLICE: Final = 4096
_ACLS_MAX: Final = 2**53
"""The maximum exact value of a metric, which is a float."""
_REASON_MAX: Final = 500
"""The maximum length of a text that an authorizer gives to callers."""


def check_completions(
    inner: Sequence[Completion[Value]],
    kind: type[Deleted] | None,
    on_failure: Callable[[BaseException], None],
) -> Sequence[Completion[Value]]:
    """Return views of an authorizer's completions. Each result is checked when it is read.

    Args:
        kind: the expected type of the results; None accepts any.
        on_failure: called with each fault found in a result.

    Raises:
        AuthorizerFaultError: an item is not a completion.
    """
    # ItemCompletions create items on access: checking the items would create all of them.
    if not isinstance(inner, ItemCompletions):
        if not isinstance(inner, Sequence):  # a generator might never end
            raise AuthorizerFaultError(
                f"expected a sequence of completions, found {type(inner).__name__}"
            )
        # A copy, since the authorizer could change its own list after the check.
        inner = tuple(inner)
        _check_kinds(inner, Completion)

    def check(completion: Completion[Value]) -> Value:
        fault = _find_fault(completion, kind)
        if fault is not None:
            on_failure(fault)
            raise fault
        return completion.result()

    return Completions(len(inner), lambda index: inner[index].view(check))


def _find_fault(
    completion: Completion[Value], kind: type[Deleted] | None
) -> AuthorizerFaultError | None:
    """Return what is wrong with the result of a done completion, or None."""
    error: object = completion.error
    if isinstance(error, Exception):
        return None
    if error is not None:
        return AuthorizerFaultError(f"an item failed with {type(error).__name__}")
    value = completion.result()
    if kind is None or _is_deleted(value):
        return None
    return AuthorizerFaultError(f"expected the result of a deletion, found {type(value).__name__}")


def iterate_safely(
    begin: Callable[[], Iterable[Value]], *passed: type[Exception]
) -> Generator[Value, None, object]:
    """Yield the values of an authorizer's iterator, and return its return value.

    Args:
        passed: errors that the authorizer may raise.

    Raises:
        AuthorizerFaultError: the authorizer raised any other error.
    """
    try:
        steps = iter(begin())
    except passed as error:
        raise with_reason(error) from error
    except BaseException as error:
        raise _fault_of(error) from error
    while True:
        try:
            value = next(steps)
        except StopIteration as end:
            return end.value
        except passed as error:
            raise with_reason(error) from error
        except BaseException as error:
            raise _fault_of(error) from error
        yield value  # outside the try: errors of the caller are not the authorizer's


def check_slices(acls: object) -> Iterator[Sequence[Acl]]:
    """Yield the ACLs of one slice, in slices of bounded length.

    Raises:
        AuthorizerFaultError: ``acls`` is not a sequence of ACLs.
    """
    if not isinstance(acls, Sequence):
        raise AuthorizerFaultError(f"expected a sequence of ACLs, found {type(acls).__name__}")
    for start in range(0, len(acls), _ACLS_PER_SLICE):
        piece = acls[start : start + _ACLS_PER_SLICE]
        _check_kinds(piece, Acl)
        yield piece
    # Pass an empty slice on: the caller lets other tasks run between slices.
    if not acls:
        yield acls


def _is_deleted(value: object) -> bool:
    """Return True if ``value`` is the result of a deletion whose fields have the right types."""
    if not isinstance(value, Deleted):
        return False
    # Typed as objects, since the authorizer may have ignored the annotations of Deleted.
    acls: object = value.acls
    error: object = value.error
    failures: object = value.failures
    return (
        isinstance(acls, Sequence)
        and _are_acls(acls)
        and (error is None or isinstance(error, Exception))
        and isinstance(failures, Mapping)
        and all(isinstance(failure, Exception) for failure in failures.values())
    )


def _are_acls(values: Sequence[object]) -> bool:
    # Check each type once: there may be a hundred thousand values, but of few types.
    return all(issubclass(kind, Acl) for kind in set(map(type, values)))


def _check_kinds(values: Sequence[object], wanted: type) -> None:
    for kind in set(map(type, values)):
        if not issubclass(kind, wanted):
            raise AuthorizerFaultError(f"expected {wanted.__name__}, found {kind.__name__}")


def to_exception(error: BaseException) -> Exception:
    """Return the error to report for an item or request after the authorizer raised ``error``."""
    return error if isinstance(error, Exception) else _fault_of(error)


def _fault_of(error: BaseException) -> AuthorizerFaultError:
    return AuthorizerFaultError(f"the authorizer raised {type(error).__name__}")


def with_reason(error: Exception) -> Exception:
    """Return an error that an authorizer may raise, with a text that is safe for callers.

    It is one of the daemon's own classes, since a class of the authorizer may override ``__str__``.
    """
    if isinstance(error, SecurityDisabledError):
        return SecurityDisabledError(check_reason(error))
    if isinstance(error, InvalidQuestionError):
        return InvalidQuestionError(check_reason(error))
    return NotReadyError(check_reason(error) or NOT_LOADED)


def check_reason(reason: object) -> str:
    """Return a text for callers, with escapes for characters that no answer can contain.

    It is empty if the text is empty or unreadable.
    """
    try:
        return escape_unprintable(str(reason)[:_REASON_MAX])
    except BaseException:  # noqa: BLE001 - the request is refused anyway
        return ""


def check_answers(answers: object, actions: Sequence[object]) -> list[bool]:
    """Return for each action whether it is allowed: only ``True`` itself allows.

    Raises:
        AuthorizerFaultError: ``answers`` is not a list or tuple with one item per action.
            Other iterables are rejected, since the keys of a dict could allow by mistake, and a
            generator might never end.
    """
    if not isinstance(answers, list | tuple):
        raise AuthorizerFaultError(f"expected a list of answers, found {type(answers).__name__}")
    checked = [answer is True for answer in answers]
    check_count(checked, actions)
    return checked


def check_count(answers: Sequence[object], items: Sequence[object]) -> None:
    """Raise AuthorizerFaultError unless there is one answer for each item."""
    if len(answers) != len(items):
        raise AuthorizerFaultError(f"expected {len(items)} answers, found {len(answers)}")


def check_acl_offset(offset: object) -> int | None:
    """Return ``offset``, the log offset of a listing, or None.

    Raises:
        AuthorizerFaultError: ``offset`` is neither None nor an int64 of at least 0.
    """
    if offset is None or (isinstance(offset, int) and 0 <= offset <= OFFSET_MAX):
        return offset
    raise AuthorizerFaultError("the offset of the ACLs is invalid: expected None, or 0 to 2**63-1")


def check_acl_count(count: object) -> int:
    """Return ``count``, the number of ACLs, or -1 for an unknown number.

    Raises:
        AuthorizerFaultError: ``count`` is not an integer, or is out of range.
    """
    if not isinstance(count, int):
        raise AuthorizerFaultError(f"expected the number of ACLs, found {type(count).__name__}")
    if not -1 <= count <= _ACLS_MAX:
        raise AuthorizerFaultError("the number of ACLs is out of range: expected -1 to 2**53")
    return count
