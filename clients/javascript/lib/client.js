// The client: one connection at a time, its time limits, and when to connect again.

import { createConnection } from "node:net";

import { AuthorizerdError, ClosedError, ConnectionLostError, TimedOutError } from "./errors.js";
import { Connection, FRAME_BYTES_MAX, encodeRequest, isAllowed, planFrames } from "./protocol.js";
import { TlsEndpoint } from "./tls.js";

const DELAY_MS_MIN = 50;
const DELAY_MS_MAX = 5000;
const FRAMES_IN_FLIGHT_MAX = 256;
const CLOSED_EARLY =
  "the daemon closed the connection without answering the hello; if it expects TLS at this " +
  "address, use tls://HOST:PORT";

/** A client with one connection; index.d.ts describes its methods. */
export class Client {
  offset = -1;
  #place;
  #tls; // null without TLS
  #token;
  #timeoutMs;
  #connectTimeoutMs;
  #frameBytesMax;
  #framesInFlightMax;
  #link = null;
  #connecting = null; // the attempt to connect that all calls share
  #abortAttempt = () => {};
  #connectError = "no attempt to connect was made";
  #failures = 0;
  #nextAttempt = -Infinity;
  #isClosed = false;

  constructor(
    address,
    {
      token = null,
      tls = null,
      timeoutMs = 5000,
      connectTimeoutMs = 5000,
      frameBytesMax = FRAME_BYTES_MAX,
      framesInFlightMax = FRAMES_IN_FLIGHT_MAX,
    } = {},
  ) {
    const { isTls, ...place } = parseAddress(address);
    if (tls && !isTls) {
      throw new TypeError("tls is given, but the address is without TLS: use tls://HOST:PORT");
    }
    this.#place = place;
    this.#tls = isTls ? new TlsEndpoint(place, tls ?? {}) : null;
    this.#token = token;
    this.#timeoutMs = timeoutMs;
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#frameBytesMax = frameBytesMax;
    this.#framesInFlightMax = framesInFlightMax;
  }

  async connect({ timeoutMs = this.#timeoutMs } = {}) {
    await this.#getLink(performance.now() + timeoutMs);
  }

  async decide(question, options = {}) {
    return isAllowed(await this.decideMany([question], options), 0, question);
  }

  async decideMany(questions, { minOffset = -1, timeoutMs = this.#timeoutMs } = {}) {
    const request = encodeRequest(questions, minOffset, this.#frameBytesMax);
    return this.#ask(request, performance.now() + timeoutMs);
  }

  async filterAllowed(
    principal,
    host,
    operation,
    resourceType,
    names,
    { minOffset = -1, timeoutMs = this.#timeoutMs } = {},
  ) {
    const limit = performance.now() + timeoutMs;
    const newQuestion = (name) => [principal, host, operation, resourceType, name];
    const allowed = [];
    for (const questions of planFrames(newQuestion, names, this.#frameBytesMax)) {
      const request = encodeRequest(questions, minOffset, this.#frameBytesMax);
      const decisions = await this.#ask(request, limit);
      questions.forEach((question, index) => {
        if (isAllowed(decisions, index, question)) allowed.push(question[4]);
      });
      minOffset = Math.max(minOffset, decisions.offset);
    }
    return allowed;
  }

  close() {
    this.#isClosed = true;
    this.#abortAttempt();
    this.#link?.end(new ClosedError("the client is closed"));
  }

  async #ask(request, limit) {
    const link = await this.#getLink(limit);
    const decisions = await link.ask(request, limit).catch(async (error) => {
      if (!(error instanceof ConnectionLostError)) throw error;
      return (await this.#getLink(limit)).ask(request, limit);
    });
    this.offset = Math.max(this.offset, decisions.offset);
    return decisions;
  }

  /** Return the connection. Connect first if necessary. */
  async #getLink(limit) {
    while (!this.#link || this.#link.hasEnded) {
      if (this.#isClosed) throw new ClosedError("the client is closed");
      if (this.#nextAttempt > limit || performance.now() >= limit) throw this.#notConnected();
      this.#connecting ??= this.#connectAfterDelay().finally(() => (this.#connecting = null));
      await settleBefore(limit, this.#connecting, () => this.#notConnected());
    }
    return this.#link;
  }

  #notConnected() {
    return new ConnectionLostError(`not connected: ${this.#connectError}`);
  }

  /** Connect, or resolve without a connection if the daemon cannot be reached now. */
  async #connectAfterDelay() {
    await this.#sleepUntil(this.#nextAttempt);
    if (this.#isClosed) return;
    const link = new Link(this.#place, this.#tls, this.#frameBytesMax, this.#framesInFlightMax);
    this.#abortAttempt = () => link.end(new ClosedError("the client is closed"));
    this.#connectError = "the daemon did not answer in time";
    try {
      const offset = await link.greet(this.#token, this.#connectTimeoutMs);
      this.offset = Math.max(this.offset, offset);
    } catch (error) {
      this.#recordFailure();
      this.#connectError = error.message;
      if (error instanceof ConnectionLostError) return;
      throw error; // the peer answered, so the caller must know its reason
    }
    this.#failures = 0;
    this.#nextAttempt = -Infinity;
    this.#link = link;
  }

  #sleepUntil(time) {
    const delay = time - performance.now();
    if (delay <= 0) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      this.#abortAttempt = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // Half of the delay is random, so that the clients of a daemon that restarts do not all return
  // at the same moment.
  #recordFailure() {
    const doubled = DELAY_MS_MIN * 2 ** Math.min(this.#failures, 30);
    this.#failures += 1;
    const delay = (Math.min(DELAY_MS_MAX, doubled) * (1 + Math.random())) / 2;
    this.#nextAttempt = performance.now() + delay;
  }
}

/** One connection with its socket. */
class Link {
  #socket;
  #tls;
  #isEstablished = false; // true once the daemon's certificate has passed the checks
  #connection;
  #framesInFlightMax;
  #waitingForRoom = []; // callbacks of calls that wait until fewer frames are in flight
  #onGreeted = () => {};

  constructor(place, tls, frameBytesMax, framesInFlightMax) {
    this.#connection = new Connection(frameBytesMax);
    this.#framesInFlightMax = framesInFlightMax;
    this.#tls = tls;
    this.#socket = tls ? tls.connect() : createConnection(place);
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (data) => this.#receive(data));
    this.#socket.on("error", (error) => this.end(this.#newBrokenError(error)));
    this.#socket.on("close", () => this.end(this.#newClosedError()));
  }

  #newBrokenError(error) {
    if (this.#tls && this.#connection.offset === null) {
      return this.#tls.newError(error, this.#isEstablished);
    }
    return new ConnectionLostError(`the connection broke: ${error.message}`);
  }

  #newClosedError() {
    if (this.#tls) return this.#tls.newClosedError(this.#isEstablished);
    const isEarly = this.#connection.offset === null;
    return new ConnectionLostError(isEarly ? CLOSED_EARLY : "the daemon closed the connection");
  }

  get hasEnded() {
    return this.#connection.error !== null;
  }

  /** Send the hello, and resolve to the offset in its answer. */
  greet(token, timeoutMs) {
    const sendHello = () => this.#socket.write(this.#connection.encodeHello(token));
    if (this.#tls) {
      // Not earlier: Node would send the token to a daemon whose certificate it then rejects.
      this.#socket.once("secureConnect", () => {
        this.#isEstablished = true;
        sendHello();
      });
    } else {
      sendHello();
    }
    return new Promise((resolve, reject) => {
      const late = () => this.end(new ConnectionLostError("the daemon did not answer in time"));
      const timer = setTimeout(late, timeoutMs);
      this.#onGreeted = () => {
        clearTimeout(timer);
        this.#onGreeted = () => {};
        if (this.#connection.error) reject(this.#connection.error);
        else resolve(this.#connection.offset);
      };
    });
  }

  /** Resolve to the decisions about the questions of one request. */
  async ask(request, limit) {
    const late = () => {
      this.#endIfOverdue();
      return new TimedOutError("the daemon did not answer in time");
    };
    while (!this.hasEnded && this.#connection.inFlight.length >= this.#framesInFlightMax) {
      const room = new Promise((resolve) => this.#waitingForRoom.push(resolve));
      await settleBefore(limit, room, late);
    }
    const exchange = this.#connection.ask(request);
    exchange.limit = limit;
    this.#socket.write(exchange.frame);
    return settleBefore(limit, exchange.decisions, late);
  }

  /** Close the connection, and reject every pending call. */
  end(error) {
    this.#connection.end(error);
    this.#socket.destroy();
    this.#onGreeted();
    this.#offerRoom();
  }

  /** End the connection if the oldest frame has no answer after its time limit. */
  #endIfOverdue() {
    const [oldest] = this.#connection.inFlight;
    if (oldest && oldest.limit <= performance.now()) {
      this.end(new ConnectionLostError("the daemon stopped answering"));
    }
  }

  #receive(data) {
    if (this.#tls) this.#tls.hasAnswered = true;
    try {
      this.#connection.receive(data);
    } catch (error) {
      if (!(error instanceof AuthorizerdError)) throw error;
      this.end(error);
      return;
    }
    if (this.#connection.offset !== null) this.#onGreeted();
    this.#offerRoom();
  }

  #offerRoom() {
    const room = this.#framesInFlightMax - this.#connection.inFlight.length;
    const released = this.#waitingForRoom.splice(0, this.hasEnded ? Infinity : room);
    for (const resolve of released) resolve();
  }
}

/** Settle as `promise` does, or reject with `newError()` at the time `limit`. */
function settleBefore(limit, promise, newError) {
  return new Promise((resolve, reject) => {
    // Wait a millisecond more: a timer may fire that much early, before the limit is reached.
    const timer = setTimeout(() => reject(newError()), Math.max(0, limit - performance.now()) + 1);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function parseAddress(address) {
  const path = /^unix:(.+)$/s.exec(address);
  if (path) return { path: path[1], isTls: false };
  const parts = /^(tcp:\/\/|tls:\/\/)?(?:\[([^\]/]+)\]|([^[\]/]+)):(\d{1,5})$/.exec(address);
  if (!parts || Number(parts[4]) > 65535) {
    const found = JSON.stringify(address);
    throw new TypeError(
      `invalid address ${found}: expected tls://HOST:PORT, tcp://HOST:PORT or unix:PATH`,
    );
  }
  return { host: parts[2] ?? parts[3], port: Number(parts[4]), isTls: parts[1] === "tls://" };
}
