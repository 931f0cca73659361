"""Send a change to one node, once, and report its known outcome.

**Invariant:** ``send`` sends a request at most once, and only if its caller then has the right.
After NotSent, Rejected and Denied, nothing has changed. After NotController, only the log shows
whether it was applied.

Source: KIP-140, KIP-590; Kafka 4.3 ControllerApis, RequestChannel (shouldReturnNotController).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.steps import finish_in_turns
from authorizerd.daemon.sources.writes.connections import Connections
from authorizerd.daemon.sources.writes.requests import (
    Answered,
    Creations,
    Denied,
    NotController,
    NotSent,
    Outcome,
    Rejected,
    Results,
    Unknown,
    Update,
)
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Node
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import decode_results
from authorizerd.protocol.kafka.acls import CreateAclsRequest, DeleteAclsRequest, FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.envelope_client import (
    InnerRequest,
    decode_envelope,
    encode_envelope,
)
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import encode_request

_CORRELATION_ID_MAX: Final = 2**31 - 1
_NOT_FORWARDED: Final[Mapping[int, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "the controller does not let this daemon forward changes: its principal needs"
        " CLUSTER_ACTION on the cluster"
    ),
    ErrorCode.UNSUPPORTED_VERSION: "the controller does not know this version of the request",
    ErrorCode.INVALID_REQUEST: "the controller finds the forwarded request invalid",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: (
        "the controller cannot read the principal: it has a different principal.builder.class"
    ),
}
"""The errors of an Envelope whose inner request the controller did not read."""


class Submission:
    """Send changes.

    Args:
        carries_caller: True if an Envelope names the caller's principal, False if the daemon sends
            the change under its own name.
        to_controllers: True if nodes are controllers, whose answer NOT_CONTROLLER is not final.
        check_caller: returns why a caller's change must not be sent now, or None if it may.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        carries_caller: bool,
        to_controllers: bool,
        check_caller: Callable[[RequestContext], Denied | NotSent | None],
    ) -> None:
        self.connections: Final = connections
        self.carries_caller: Final = carries_caller
        self._to_controllers = to_controllers
        self._check_caller = check_caller
        self._correlation_ids = itertools.count(1)

    async def send(self, address: Address, update: Update, timeout_ms: int) -> Outcome:
        """Send ``update`` to ``address``, and wait for the answer.

        If cancelled, it is unknown whether the change is applied.
        """
        try:
            connection = await self.connections.take(address)
        except ConnectionFailedError as error:
            return NotSent(str(error))
        node = connection.node
        outcome: Outcome | None = None
        try:
            outcome = await self._exchange(node, update, timeout_ms)
        finally:
            # After a failure, a late answer could be mistaken for the next request's.
            if outcome is None or isinstance(outcome, Unknown):
                await node.aclose()
        if not isinstance(outcome, Unknown):
            await self.connections.give_back(connection)
        return outcome

    async def _exchange(self, node: Node, update: Update, timeout_ms: int) -> Outcome:
        try:
            version = node.choose_version(update.api_key)
            if self.carries_caller:
                node.choose_version(ApiKey.ENVELOPE)
        except RequestFailedError as error:
            return Rejected(ApiError(error.error.code, f"{node.address}: {error}"))
        body = await finish_in_turns(_encode(version, update))
        await trio.lowlevel.checkpoint_if_cancelled()
        obstacle = self._check_caller(update.caller)
        if obstacle is not None:
            return obstacle
        update.is_sent = True
        try:
            if self.carries_caller:
                return await self._forward(node, update, version, body, timeout_ms)
            call = Call(
                api_key=update.api_key,
                encode=lambda _: body,
                decode=lambda _, answer: answer,
            )
            answer = await node.request(call, timeout_ms)
            return await self._read(node, update, version, answer)
        except (ConnectionFailedError, RequestFailedError) as error:
            return Unknown(str(error))
        except DecodeError as error:
            return Unknown(f"{node.address}: expected an answer to the change: {error}")

    async def _forward(
        self, node: Node, update: Update, version: int, body: bytes, timeout_ms: int
    ) -> Outcome:
        caller = update.caller
        assert caller.host is not None, "a caller without an address is not forwarded"
        principal, host = caller.principal, caller.host
        inner = InnerRequest(
            api_key=update.api_key,
            api_version=version,
            body=body,
            correlation_id=next(self._correlation_ids) & _CORRELATION_ID_MAX,
            client_id=caller.client_id,
        )
        call = Call(
            api_key=ApiKey.ENVELOPE,
            encode=lambda outer: encode_envelope(outer, inner, principal=principal, host=host),
            decode=lambda _, answer: decode_envelope(inner, answer),
        )
        answer = await node.request(call, timeout_ms)
        if answer.error_code:
            return _judge_outer(node.address, answer.error_code)
        return await self._read(node, update, version, answer.body)

    async def _read(
        self, node: Node, update: Update, version: int, answer: bytes | bytearray
    ) -> Outcome:
        results: Results
        results, _ = await finish_in_turns(
            decode_results(update.api_key, version, answer, len(update.items))
        )
        codes = _collect_codes(results)
        if self._to_controllers and ErrorCode.NOT_CONTROLLER in codes:
            return _not_controller(node.address)
        if codes == {ErrorCode.AUTHORIZER_NOT_READY}:
            return _not_ready(node.address)
        return Answered(results)


def _judge_outer(address: Address, code: int) -> Outcome:
    """Return the outcome of an Envelope that is answered by an outer error."""
    if code == ErrorCode.NOT_CONTROLLER:
        return _not_controller(address)
    if code == ErrorCode.AUTHORIZER_NOT_READY:
        return _not_ready(address)
    text = _NOT_FORWARDED.get(code)
    if text is not None:
        return Rejected(ApiError(code, f"{address}: {text}"))
    return Unknown(f"{address}: {ApiError(code)}")


def _not_controller(address: Address) -> NotController:
    return NotController(f"{address} is not the active controller")


def _not_ready(address: Address) -> NotSent:
    return NotSent(f"{address}: the authorizer is not ready", is_lost=False)


def _encode(version: int, update: Update) -> Steps[bytes]:
    request: CreateAclsRequest | DeleteAclsRequest
    if isinstance(update, Creations):
        request = CreateAclsRequest(update.items)
    else:
        request = DeleteAclsRequest(update.items)
    return encode_request(update.api_key, version, request)


def _collect_codes(results: Sequence[ApiError | FilterResult | None]) -> set[int]:
    """Return the codes of all results; 0 is success."""
    codes = set()
    for result in results:
        error = result.error if isinstance(result, FilterResult) else result
        codes.add(ErrorCode.NONE if error is None else error.code)
    return codes
