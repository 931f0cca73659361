// The decision stream without a socket: frames, their encoding, and the matching of answers.
//
// Invariant: decisions come only from a complete answer with error code 0, the expected correlation
// id and one byte per question. Bytes that violate the protocol end the connection.

import {
  AnswerError,
  ForbiddenError,
  InvalidQuestionError,
  InvalidRequestError,
  NotReadyError,
  OffsetNotReachedError,
  OverloadedError,
  ProtocolError,
  TlsError,
  TokenRefusedError,
  UnsupportedVersionError,
} from "./errors.js";
import { NOT_READY_TEXT } from "./texts.js";
import { decode, encode } from "./msgpack.js";

export const FRAME_BYTES_MAX = 131_072; // the daemon's default limit for a frame of questions
const QUESTIONS_PER_FRAME = 256;
const VERSION = 1;
const NO_CORRELATION_ID = -1; // answers a frame that the daemon refused before it was complete
const SIZE_BYTES = 4;
const HEAD_BYTES = 32; // an upper bound for the part of a frame that is not questions
const LIST_HEAD_BYTES = 5; // the maximum size of a list's length in msgpack
const TLS_ALERT = 0x1503; // how a TLS server answers a client that does not speak TLS
const ANSWER_EXTRA_BYTES = 1024; // room for fields that later versions may append to an answer
const ALLOWED = 1;
const INVALID = 2;
const NOT_READY = 3;
const NOT_READY_ERROR = 801;

// How long to wait after a refused frame. After two, the daemon ignores the client this long.
const FRAME_REFUSED_MS = 100;
// How long to wait if no connection or memory is free: they free up more slowly than CPU time.
const CONNECTION_REFUSED_MS = 1000;
const OVERLOADED = 89;

const ERROR_OF = new Map([
  [7, [OffsetNotReachedError, "minOffset was not reached in time"]],
  [31, [ForbiddenError, "the caller may not ask about others: authorizerd.callers.ask does not list it"]],
  [35, [UnsupportedVersionError, "the daemon does not speak version 1 of the decision stream"]],
  [42, [InvalidRequestError, "the daemon could not read the questions"]],
  [58, [TokenRefusedError, "a valid token or client certificate is required"]],
  [801, [NotReadyError, NOT_READY_TEXT]],
]);

/** Return the error for one frame, which the daemon answered with an error code. */
function newFrameError(code) {
  return newAnswerError(code, FRAME_REFUSED_MS);
}

/** Return the error for a connection that the daemon refuses or ends. */
function newConnectionError(code) {
  return newAnswerError(code, CONNECTION_REFUSED_MS);
}

function newAnswerError(code, retryAfterMs) {
  if (code === OVERLOADED) {
    return new OverloadedError("the daemon is overloaded", code, retryAfterMs);
  }
  const [Kind, message] = ERROR_OF.get(code) ?? [AnswerError, "the daemon answered with an error"];
  return new Kind(message, code);
}

/** Return the decisions of one answer: `{ offset, codes, allowed }`. */
function newDecisions(offset, codes) {
  return { offset, codes, allowed: Array.from(codes, (code) => code === ALLOWED) };
}

/** Return true if the question at `index` is allowed. Throws if it has no decision. */
export function isAllowed(decisions, index, question) {
  const code = decisions.codes[index];
  if (code === INVALID) {
    throw new InvalidQuestionError(
      `invalid question ${JSON.stringify(question)}: expected a principal "TYPE:NAME", an IP ` +
        "address or null, a Kafka operation, a Kafka resource type and a non-empty name",
    );
  }
  if (code === NOT_READY) throw newFrameError(NOT_READY_ERROR);
  return code === ALLOWED;
}

/** Encode questions, to be sent on any connection. Throws InvalidQuestionError. */
export function encodeRequest(questions, minOffset, frameBytesMax) {
  const encoded = encodeQuestions(questions);
  const size = encoded.length + HEAD_BYTES;
  if (size > frameBytesMax) {
    throw new InvalidQuestionError(
      `${questions.length} questions take ${size} bytes, but a frame has at most ` +
        `${frameBytesMax}: ask fewer questions at once`,
    );
  }
  encodeQuestions(minOffset); // throws before anything is sent
  return { encoded, count: questions.length, minOffset };
}

/** Return the same request with a minOffset of at least `offset`. */
export function withMinOffset(request, offset) {
  return { ...request, minOffset: Math.max(request.minOffset, offset) };
}

function encodeQuestions(value) {
  try {
    return encode(value);
  } catch (error) {
    const message = `the question cannot be encoded: ${error.message}`;
    throw new InvalidQuestionError(message, { cause: error });
  }
}

/** Yield the questions about all `names`, in lists that each fit into one frame. */
export function* planFrames(newQuestion, names, frameBytesMax) {
  let questions = [];
  let size = HEAD_BYTES;
  for (const name of names) {
    const question = newQuestion(name);
    const questionSize = encodeQuestions(question).length;
    const hasRoom =
      questions.length < QUESTIONS_PER_FRAME &&
      size + questionSize <= frameBytesMax - LIST_HEAD_BYTES;
    if (questions.length && !hasRoom) {
      yield questions;
      questions = [];
      size = HEAD_BYTES;
    }
    questions.push(question);
    size += questionSize;
  }
  if (questions.length) yield questions;
}

/** One connection: frames to send, and promises that the received bytes settle. */
export class Connection {
  offset = null; // the log offset in the daemon's hello; null until it has arrived
  inFlight = []; // exchanges that wait for their answers, the oldest first
  #received = Buffer.alloc(0);
  #correlationId = 0;
  #bytesMax;
  error = null; // why the connection has ended

  constructor(frameBytesMax) {
    this.#bytesMax = frameBytesMax + ANSWER_EXTRA_BYTES;
  }

  encodeHello(token) {
    return frame(encode(["hello", VERSION, token]));
  }

  /** Return a new exchange with the frame to send and the promise of its decisions. */
  ask(request) {
    if (this.error) throw this.error;
    const exchange = { correlationId: ++this.#correlationId, count: request.count };
    exchange.decisions = new Promise((resolve, reject) => {
      exchange.resolve = resolve;
      exchange.reject = reject;
    });
    const hasOffset = request.minOffset >= 0;
    const head = Buffer.from([hasOffset ? 0x93 : 0x92]);
    const parts = [head, encode(exchange.correlationId), request.encoded];
    if (hasOffset) parts.push(encode(request.minOffset));
    exchange.frame = frame(Buffer.concat(parts));
    this.inFlight.push(exchange);
    return exchange;
  }

  /** Add data from the daemon and settle exchanges. Throws if the connection must end. */
  receive(data) {
    if (this.error) return;
    this.#received = this.#received.length ? Buffer.concat([this.#received, data]) : data;
    for (let content; (content = this.#nextFrame()) !== null; ) {
      if (this.offset === null) this.#greet(content);
      else this.#settleNext(content);
    }
  }

  /** Reject every exchange, and accept no more questions. */
  end(error) {
    this.error ??= error;
    this.#received = Buffer.alloc(0);
    for (const exchange of this.inFlight.splice(0)) exchange.reject(this.error);
  }

  #nextFrame() {
    if (this.#received.length < SIZE_BYTES) return null;
    if (this.offset === null && this.#received.readUInt16BE(0) === TLS_ALERT) {
      throw new TlsError("the daemon expects TLS at this address: use tls://HOST:PORT");
    }
    const size = this.#received.readUInt32BE(0);
    if (size > this.#bytesMax) {
      throw new ProtocolError(`expected a frame of at most ${this.#bytesMax} bytes, found ${size}`);
    }
    const end = SIZE_BYTES + size;
    if (this.#received.length < end) return null;
    const content = this.#received.subarray(SIZE_BYTES, end);
    this.#received = this.#received.subarray(end);
    return content;
  }

  #greet(content) {
    const [word, version, code, offset] = readFields(content);
    if (word !== "hello" || ![version, code, offset].every(Number.isInteger)) {
      throw new ProtocolError("expected the answer to a hello");
    }
    if (code !== 0) throw newConnectionError(code);
    this.offset = offset;
  }

  #settleNext(content) {
    const [correlationId, code, offset, codes] = readFields(content);
    if (![correlationId, code, offset].every(Number.isInteger) || !Buffer.isBuffer(codes)) {
      throw new ProtocolError("expected an answer");
    }
    if (correlationId === NO_CORRELATION_ID && code !== 0) throw newConnectionError(code);
    const exchange = this.inFlight[0];
    if (exchange?.correlationId !== correlationId) {
      const expected = exchange ? `id ${exchange.correlationId}` : "no answer";
      throw new ProtocolError(
        `expected ${expected}, found an answer with correlation id ${correlationId}`,
      );
    }
    if (code === 0 && codes.length !== exchange.count) {
      throw new ProtocolError(`expected ${exchange.count} decisions, found ${codes.length}`);
    }
    this.inFlight.shift();
    if (code !== 0) exchange.reject(newFrameError(code));
    else exchange.resolve(newDecisions(offset, new Uint8Array(codes)));
  }
}

function readFields(content) {
  let value;
  try {
    value = decode(content);
  } catch (error) {
    throw new ProtocolError(`expected a msgpack array: ${error.message}`, { cause: error });
  }
  if (!Array.isArray(value)) throw new ProtocolError("expected a msgpack array");
  return value;
}

function frame(content) {
  const size = Buffer.alloc(SIZE_BYTES);
  size.writeUInt32BE(content.length);
  return Buffer.concat([size, content]);
}

