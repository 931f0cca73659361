/**
 * May `principal` do `operation` to the resource?
 *
 * - `principal`: a type and a name, such as `User:alice`.
 * - `host`: the IP address of the principal's connection. If it is null, only ALLOW rules for every
 *   host apply, but all DENY rules do, even those for one host.
 * - `operation` and `resourceType`: Kafka's names in capitals (`READ`, `TOPIC`), or codes.
 * - `resourceName`: the literal name of one resource.
 */
export type Question = readonly [
  principal: string,
  host: string | null,
  operation: string | number,
  resourceType: string | number,
  resourceName: string,
];

/** The decisions about the questions of one frame, all by the same state of the ACLs. */
export interface Decisions {
  /** The log offset of that state. */
  readonly offset: number;
  /** One byte per question: 0 denied, 1 allowed, 2 invalid question, 3 not ready. */
  readonly codes: Uint8Array;
  /** One value per question: true only if the daemon allows it. */
  readonly allowed: boolean[];
}

type Pem = string | Uint8Array;

/** Options of `tls.connect` and `tls.createSecureContext` in Node.js; others are passed on too. */
export interface TlsOptions {
  /** The CAs to trust, in PEM; the default is Node's own list. */
  ca?: Pem | Pem[];
  /** The client's certificate chain and key, in PEM, if the daemon asks for a certificate. */
  cert?: Pem | Pem[];
  key?: Pem | Pem[];
  /** The key's password. */
  passphrase?: string;
  /** The name that the daemon's certificate must contain; the default is the address's host. */
  servername?: string;
  minVersion?: string;
  maxVersion?: string;
  [option: string]: unknown;
}

export interface ClientOptions {
  /** `ID.SECRET`, if the daemon requires tokens and the client has no certificate. */
  token?: string | null;
  /** For addresses with `tls://`; by default, Node's CAs are trusted, and the host is checked. */
  tls?: TlsOptions | null;
  /** Time limit of a call, including connecting; 5000 by default. */
  timeoutMs?: number;
  /** Time limit of one attempt to connect, with TLS and hello; 5000 by default. */
  connectTimeoutMs?: number;
  /** The daemon's `authorizerd.stream.frame.max.bytes`; 131072 by default. */
  frameBytesMax?: number;
  /**
   * With several addresses, how long one daemon may take, to connect or to answer, while another
   * one could be asked; 1000 by default. If the time that a call has left, divided among these
   * daemons, is shorter, then that applies.
   */
  failoverTimeoutMs?: number;
  /** How many frames may wait for answers; further calls wait. 256 by default. */
  framesInFlightMax?: number;
}

export interface AskOptions {
  /** Answer by ACLs that include this log offset; the daemon waits for it. */
  minOffset?: number;
  /** Replaces the client's time limit. */
  timeoutMs?: number;
}

/**
 * A client with one connection at a time. The first call connects, and so does the first call after
 * a failure. If the connection breaks during a question, the client asks again. If there is no
 * decision, the promise rejects with an `AuthorizerdError`: deny then.
 *
 * With several addresses, the client asks the first daemon in the list that works. If a daemon
 * cannot be reached, is not ready, or is silent for `failoverTimeoutMs`, the client asks the next
 * one, and avoids the failed one for up to 5 seconds, longer with each failure. Every 10 to 20
 * seconds, it tries to return to an earlier address; no question waits for that.
 *
 * An open connection keeps the process running: call `close` at the end.
 */
export class Client {
  /**
   * `address` is `tls://HOST:PORT`, `tcp://HOST:PORT`, `HOST:PORT` or `unix:PATH`; or a list of
   * these, for daemons with the same ACLs, in order of preference. Throws TypeError otherwise, and
   * if `tls` is given for an address without TLS.
   */
  constructor(address: string | readonly string[], options?: ClientOptions);
  /** The newest log offset that a daemon has named, -1 before the first. */
  readonly offset: number;
  /** Connect now rather than with the first question, to find a wrong address or token early. */
  connect(options?: { timeoutMs?: number }): Promise<void>;
  /** Resolve to true if the daemon allows the question, to false if it denies it. */
  decide(question: Question, options?: AskOptions): Promise<boolean>;
  /** Resolve to the decisions about all questions, which travel in one frame. */
  decideMany(questions: readonly Question[], options?: AskOptions): Promise<Decisions>;
  /** Resolve to those of `names` that are allowed, in their order. Any number may be given. */
  filterAllowed(
    principal: string,
    host: string | null,
    operation: string | number,
    resourceType: string | number,
    names: readonly string[],
    options?: AskOptions,
  ): Promise<string[]>;
  /**
   * Resolve to the log offset of the ACLs by which the daemon decides now. A daemon acknowledges a
   * change of ACLs only after it decides by it: the offset of the daemon that acknowledged your
   * change includes the change.
   */
  readOffset(options?: { timeoutMs?: number }): Promise<number>;
  /**
   * From now on, accept only answers by ACLs that include this log offset. Use it to read your own
   * writes, with the result of `readOffset`. The daemons of the client must follow the same quorum:
   * offsets of daemons with another source are their own.
   */
  requireOffset(offset: number): void;
  /** Close the connection for good. Pending calls reject with a `ClosedError`. */
  close(): void;
}

/** An ACL with Kafka's names. A name that the daemon does not know is UNKNOWN. */
export interface Acl {
  readonly resource_type: string;
  readonly resource_name: string;
  readonly pattern_type: string;
  readonly principal: string;
  readonly host: string;
  readonly operation: string;
  readonly permission_type: string;
}

/** An ACL that was added or removed, and its Kafka id. */
export interface AclChange {
  readonly change: "add" | "remove";
  readonly id: string;
  readonly acl: Acl;
}

/**
 * An event of a watch:
 * - `listing`: all ACLs by their ids. They replace everything that was known before.
 * - `changes`: the changes of one batch, in order. They became visible together.
 * - `suspended`: the daemon has stopped deciding, so the ACLs may be out of date until `resumed`.
 */
export type AclEvent =
  | { readonly type: "listing"; readonly offset: number; readonly acls: ReadonlyMap<string, Acl> }
  | { readonly type: "changes"; readonly offset: number; readonly changes: readonly AclChange[] }
  | { readonly type: "suspended"; readonly reason: string }
  | { readonly type: "resumed" };

export interface WatchOptions {
  /** `ID.SECRET` of a principal in `authorizerd.callers.read`, unless the client has a certificate. */
  token?: string | null;
  /** Options of `https.request`, such as `ca`, `cert` and `key`, for `https://`. */
  tls?: object | null;
  /**
   * How long the daemon may be silent before the watch connects again; 30,000 by default. The head of
   * its answer must arrive within this time.
   */
  silenceMs?: number;
  /** How long to try without an answer before an error is thrown; without a limit by default. */
  retryMs?: number;
}

/**
 * List the ACLs of a daemon, and follow their changes. The watch connects again by itself, and goes
 * on where it was; if the daemon no longer has the changes in between, a new listing follows.
 * It ends with `break`, or with an error: `ForbiddenError`, `TokenRefusedError`, `TlsError`,
 * `ProtocolError`, or `ConnectionLostError` after `retryMs`.
 *
 * @param address `http://HOST:PORT` or `https://HOST:PORT` of the daemon's decision port.
 */
export function watch(address: string, options?: WatchOptions): AsyncGenerator<AclEvent, never, void>;

/** Base of all errors of the client. The caller has no decision and must deny. */
export class AuthorizerdError extends Error {}
/** A question is invalid, or too large for a frame. */
export class InvalidQuestionError extends AuthorizerdError {}
/** No daemon could be reached, or the connection broke before the answer arrived. */
export class ConnectionLostError extends AuthorizerdError {}
/** The answer did not arrive within the client's time limit. */
export class TimedOutError extends AuthorizerdError {}
/** The client was closed before or during the question. */
export class ClosedError extends AuthorizerdError {}
/** The peer violated the protocol of the decision stream. The client closed the connection. */
export class ProtocolError extends AuthorizerdError {}
/** A certificate is refused, or one side does not speak TLS; the message names the remedy. */
export class TlsError extends AuthorizerdError {}
/** The daemon answered with an error instead of decisions. */
export class AnswerError extends AuthorizerdError {
  /** The error code. `authorizerd docs stream` lists all codes. */
  readonly code: number;
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
/** The daemon has more work, connections or data than its limits allow. */
export class OverloadedError extends AnswerError {
  /** Wait at least this long before you ask again. */
  readonly retryAfterMs: number;
}
