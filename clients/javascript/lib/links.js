// The connections of a client: to which daemon, and when to make a new one.
//
// Invariant: new questions use one connection. A connection that was replaced by one to an earlier
// address ends when its last frame is answered.

import {
  AuthorizerdError,
  ClosedError,
  ConnectionLostError,
  NotReadyError,
} from "./errors.js";
import { NOT_READY_TEXT } from "./texts.js";
import { Link, settleBefore } from "./link.js";

export class Links {
  #daemons;
  #options;
  #link = null;
  #retired = null;
  #connecting = null; // the attempts to connect that all calls share
  #attempts = new Set(); // connections that are being made
  #endSleep = () => {};
  #isClosed = false;

  /** `options`: token, connectTimeoutMs, failoverTimeoutMs, frameBytesMax, framesInFlightMax. */
  constructor(daemons, options) {
    this.#daemons = daemons;
    this.#options = options;
  }

  /** Resolve to the connection. Connect first if necessary. */
  async get(limit) {
    this.#startReturn();
    while (!this.#link || this.#link.hasEnded) {
      if (this.#isClosed) throw new ClosedError("the client is closed");
      if (this.#daemons.nextAttempt > limit || performance.now() >= limit) {
        throw this.#newNotConnectedError();
      }
      this.#connecting ??= this.#connect(limit).finally(() => (this.#connecting = null));
      await settleBefore(limit, this.#connecting, () => this.#newNotConnectedError());
    }
    return this.#link;
  }

  /** Drop a connection whose daemon failed. Only the first of its callers gets to do so. */
  setAside(link, outcome) {
    if (this.#link !== link) return;
    this.#link = null;
    this.#daemons.setAside(link.daemon, outcome, performance.now());
    link.end(new ConnectionLostError("the daemon failed; the question is asked elsewhere"));
  }

  /** End every connection for good. */
  close() {
    this.#isClosed = true;
    this.#endSleep();
    for (const link of [this.#link, this.#retired, ...this.#attempts]) {
      link?.end(new ClosedError("the client is closed"));
    }
  }

  #newNotConnectedError() {
    return new ConnectionLostError(this.#daemons.explain());
  }

  /** Try each daemon at most once. Throws the first refusal, if none can be connected to. */
  async #connect(limit) {
    await this.#sleepUntil(this.#daemons.nextAttempt);
    let refusal = null;
    for (let left = this.#daemons.count; left > 0 && !this.#isClosed; left -= 1) {
      const now = performance.now();
      const daemon = this.#daemons.choose(now);
      if (daemon === null) break;
      try {
        const attemptMs = this.#daemons.limitAttempt(daemon, now, limit - now);
        this.#link = await this.#connectTo(daemon, attemptMs);
        return;
      } catch (error) {
        if (!(error instanceof AuthorizerdError)) throw error;
        // If the peer answered, the caller must know its reason.
        if (!(error instanceof ConnectionLostError)) refusal ??= error;
      }
    }
    if (refusal) throw refusal;
  }

  async #connectTo(daemon, attemptMs) {
    const { token, connectTimeoutMs, frameBytesMax, framesInFlightMax } = this.#options;
    daemon.error = "the daemon did not answer in time";
    const link = new Link(daemon, frameBytesMax, framesInFlightMax);
    this.#attempts.add(link);
    try {
      await link.greet(token, Math.min(connectTimeoutMs, attemptMs));
    } catch (error) {
      daemon.fail(performance.now());
      daemon.error = error.message;
      throw error;
    } finally {
      this.#attempts.delete(link);
    }
    this.#daemons.recordConnection(daemon, performance.now());
    return link;
  }

  /** Try to return to an earlier daemon if it is time. Calls use the connection meanwhile. */
  #startReturn() {
    const link = this.#link;
    if (!link || link.hasEnded || this.#isClosed) return;
    const earlier = this.#daemons.chooseReturn(link.daemon, performance.now());
    if (!earlier) return;
    this.#connectTo(earlier, this.#options.failoverTimeoutMs).then(
      (found) => this.#return(link, found),
      () => {}, // the current daemon still answers
    );
  }

  #return(link, found) {
    if (this.#link !== link || this.#isClosed) {
      found.retire();
    } else if (found.offset < 0 && link.offset >= 0) {
      found.retire();
      const reason = new NotReadyError(NOT_READY_TEXT, 801);
      this.#daemons.setAside(found.daemon, reason, performance.now());
    } else {
      this.#retired?.end(new ConnectionLostError("the connection was replaced twice"));
      this.#retired = link;
      this.#link = found;
      link.retire();
    }
  }

  #sleepUntil(time) {
    const delay = time - performance.now();
    if (delay <= 0) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay + 1); // a timer may fire a millisecond early
      this.#endSleep = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
