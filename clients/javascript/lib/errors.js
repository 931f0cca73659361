// The errors of the client. Each of them means that the caller has no decision and must deny.

/** Base of all errors of the client. */
export class AuthorizerdError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** A question is invalid, or too large for a frame. */
export class InvalidQuestionError extends AuthorizerdError {}

/** The daemon could not be reached, or the connection broke before the answer arrived. */
export class ConnectionLostError extends AuthorizerdError {}

/** The answer did not arrive within the client's time limit. */
export class TimedOutError extends AuthorizerdError {}

/** The client was closed before or during the question. */
export class ClosedError extends AuthorizerdError {}

/** The peer violated the protocol of the decision stream. The client closed the connection. */
export class ProtocolError extends AuthorizerdError {}

/** A certificate is refused, or one side does not speak TLS. */
export class TlsError extends AuthorizerdError {}

/** The daemon answered with an error code instead of decisions. */
export class AnswerError extends AuthorizerdError {
  constructor(message, code) {
    super(`${message} (error ${code})`);
    this.code = code;
  }
}

/** The daemon's ACLs did not reach `minOffset` in time. */
export class OffsetNotReachedError extends AnswerError {}

/** The caller lacks a right: the daemon does not list it in `authorizerd.callers.*`. */
export class ForbiddenError extends AnswerError {}

/** The daemon does not speak this client's version of the protocol. */
export class UnsupportedVersionError extends AnswerError {}

/** The daemon could not read the questions: a field has an unexpected type. */
export class InvalidRequestError extends AnswerError {}

/** The token is unknown, or the daemon requires one and got none. */
export class TokenRefusedError extends AnswerError {}

/** The daemon has no ACLs to decide by: not loaded yet, or stale. Ask again later. */
export class NotReadyError extends AnswerError {}

/** The daemon has too much work; wait `retryAfterMs` before you ask again. */
export class OverloadedError extends AnswerError {
  constructor(message, code, retryAfterMs) {
    super(message, code);
    this.retryAfterMs = retryAfterMs;
  }
}
