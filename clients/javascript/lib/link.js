// One connection to one daemon: its socket, its TLS and the calls that wait for its answers.

import { createConnection } from "node:net";

import { AuthorizerdError, ConnectionLostError, TimedOutError } from "./errors.js";
import { Connection } from "./protocol.js";

const CLOSED_EARLY =
  "the daemon closed the connection without answering the hello; if it expects TLS at this " +
  "address, use tls://HOST:PORT";

/** One connection with its socket; `daemon` is the peer. */
export class Link {
  daemon;
  offset = -1; // the log offset in the answer to the hello; -1 if the ACLs are not loaded
  #isRetired = false;
  #socket;
  #tls;
  #isEstablished = false; // true once the daemon's certificate has passed the checks
  #connection;
  #framesInFlightMax;
  #waitingForRoom = []; // callbacks of calls that wait until fewer frames are in flight
  #onGreeted = () => {};

  constructor(daemon, frameBytesMax, framesInFlightMax) {
    const { place, tls } = daemon;
    this.daemon = daemon;
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

  /** Send the hello, and resolve once it is answered. */
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
        else resolve((this.offset = this.#connection.offset));
      };
    });
  }

  /**
   * Resolve to the decisions about the questions of one request.
   *
   * The daemon counts as silent at the time `limit`. If `attemptMs` is finite, it counts as silent
   * this long after the frame was sent, and the connection ends then.
   */
  async ask(request, limit, attemptMs) {
    const late = () => {
      this.#endIfOverdue();
      return new TimedOutError("the daemon did not answer in time");
    };
    while (!this.hasEnded && this.#connection.inFlight.length >= this.#framesInFlightMax) {
      const room = new Promise((resolve) => this.#waitingForRoom.push(resolve));
      await settleBefore(limit, room, late);
    }
    const exchange = this.#connection.ask(request);
    exchange.limit = attemptMs < Infinity ? performance.now() + attemptMs : limit;
    this.#socket.write(exchange.frame);
    if (attemptMs < Infinity) this.#watch(exchange);
    return settleBefore(limit, exchange.decisions, late);
  }

  /** End the connection once its last frame is answered. */
  retire() {
    this.#isRetired = true;
    this.#endIfRetired();
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

  /** End the connection if the daemon is silent when the limit of `exchange` ends. */
  #watch(exchange) {
    let timer;
    const check = () => {
      this.#endIfOverdue();
      if (!this.hasEnded) start(); // an older frame has a later limit: it waits for its minOffset
    };
    const start = () => {
      const end = Math.max(exchange.limit, this.#connection.inFlight[0].limit);
      timer = setTimeout(check, end - performance.now() + 1);
    };
    const stop = () => clearTimeout(timer);
    start();
    exchange.decisions.then(stop, stop);
  }

  #endIfRetired() {
    if (this.#isRetired && !this.#connection.inFlight.length) {
      this.end(new ConnectionLostError("the connection was replaced"));
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
    this.#endIfRetired();
    this.#offerRoom();
  }

  #offerRoom() {
    const room = this.#framesInFlightMax - this.#connection.inFlight.length;
    const released = this.#waitingForRoom.splice(0, this.hasEnded ? Infinity : room);
    for (const resolve of released) resolve();
  }
}

/** Settle as `promise` does, or reject with `newError()` at the time `limit`. */
export function settleBefore(limit, promise, newError) {
  return new Promise((resolve, reject) => {
    // Wait a millisecond more: a timer may fire that much early, before the limit is reached.
    const timer = setTimeout(() => reject(newError()), Math.max(0, limit - performance.now()) + 1);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
