// The daemons that a client may ask: which one next, for how long, and when to return to another.
//
// Nothing here has a clock or a socket. All times are milliseconds of one clock.

import { ConnectionLostError, NotReadyError } from "./errors.js";
import { TlsEndpoint } from "./tls.js";

export const FAILOVER_MS = 1000;
const DELAY_MS_MIN = 50;
const DELAY_MS_MAX = 5000;
// A shorter silence does not count against a daemon, however little time the caller has left.
const ATTEMPT_MS_MIN = 50;
// A client tries an earlier address again after this time, or up to twice as long.
const RETURN_MS = 10_000;
const NOT_TRIED = "no attempt to connect was made";
const NOT_READY = 3;

/** One address, and when it may be tried. */
class Daemon {
  error = null; // why the newest attempt to connect failed; null after one that succeeded
  failures = 0; // since the last success
  nextAttempt = -Infinity;

  constructor(text, tls) {
    const { isTls, ...place } = parseAddress(text);
    if (tls && !isTls) {
      throw new TypeError("tls is given, but the address is without TLS: use tls://HOST:PORT");
    }
    this.text = text;
    this.place = place;
    this.tls = isTls ? new TlsEndpoint(place, tls ?? {}) : null; // null without TLS
  }

  isDue(now) {
    return this.nextAttempt <= now;
  }

  // Half of the delay is random, so that the clients of a daemon that restarts do not all return
  // at the same moment.
  fail(now) {
    const doubled = DELAY_MS_MIN * 2 ** Math.min(this.failures, 30);
    this.failures += 1;
    this.nextAttempt = now + (Math.min(DELAY_MS_MAX, doubled) * (1 + Math.random())) / 2;
  }

  succeed() {
    this.failures = 0;
    this.nextAttempt = -Infinity;
  }
}

/**
 * The daemons of one client, in the order in which the client prefers them.
 *
 * A daemon that fails is set aside: the client does not try it before its back-off has ended. The
 * only daemon of a client is never set aside because of an answer.
 */
export class Daemons {
  #all;
  #failoverMs;
  #returnTime = -Infinity;

  constructor(addresses, tls, failoverMs) {
    const texts = Array.isArray(addresses) ? addresses : [addresses];
    if (!texts.length) throw new TypeError("expected at least one address, found none");
    this.#all = texts.map((text) => new Daemon(text, tls));
    this.#failoverMs = failoverMs;
  }

  get count() {
    return this.#all.length;
  }

  /** How often one question may be sent. */
  get attemptsMax() {
    return this.#all.length + 1;
  }

  /** The first time at which a daemon may be tried. */
  get nextAttempt() {
    return Math.min(...this.#all.map((each) => each.nextAttempt));
  }

  /**
   * Return the daemon to connect to, or null if all are set aside.
   *
   * It is the first that has not failed. If all have failed, it is the one whose back-off ended
   * first: otherwise, two silent daemons at the head of the list would hide all others.
   */
  choose(now) {
    const due = this.#all.filter((each) => each.isDue(now));
    const rank = (each) => (each.failures ? each.nextAttempt : -Infinity);
    return due.reduce((best, each) => (best && rank(best) <= rank(each) ? best : each), null);
  }

  /** Return an earlier daemon than `current` if it is time to try one again; otherwise null. */
  chooseReturn(current, now) {
    if (current === this.#all[0] || now < this.#returnTime) return null;
    this.#planReturn(now);
    const earlier = this.#all.slice(0, this.#all.indexOf(current));
    return earlier.find((each) => each.isDue(now)) ?? null;
  }

  /** Record that the client has connected to `daemon` and will ask it. */
  recordConnection(daemon, now) {
    daemon.error = null;
    // With others, only an answer ends the back-off: a daemon that is not ready, or dies at each
    // question, would otherwise be tried with each question.
    if (this.count === 1) daemon.succeed();
    this.#planReturn(now);
  }

  /**
   * Return how long `daemon` may take before another one is asked.
   *
   * Infinity if no other daemon could be asked, or no further attempt will follow (`isLast`): then
   * only the caller's time limit applies.
   */
  limitAttempt(daemon, now, remainingMs, isLast = false) {
    const others = this.#countOthers(daemon, now);
    if (isLast || !others) return Infinity;
    return Math.max(ATTEMPT_MS_MIN, Math.min(this.#failoverMs, remainingMs / (others + 1)));
  }

  /** Return true if the question should be asked again, elsewhere if possible. */
  shouldRepeat(daemon, outcome, now) {
    if (outcome instanceof ConnectionLostError) return true;
    return isNotReady(outcome) && this.#countOthers(daemon, now) > 0;
  }

  /** Record that `daemon` has failed, so that others are asked for a while. */
  setAside(daemon, outcome, now) {
    daemon.error = isNotReady(outcome) ? "the ACLs are not loaded" : outcome.message;
    if (this.count > 1) daemon.fail(now);
  }

  /** Return why no daemon is connected, with the addresses if there are several. */
  explain() {
    const reasons = this.#all.map((each) => {
      const reason = each.error ?? NOT_TRIED;
      return this.count === 1 ? reason : `${each.text}: ${reason}`;
    });
    return `not connected: ${reasons.join("; ")}`;
  }

  #countOthers(daemon, now) {
    return this.#all.filter((each) => each !== daemon && each.isDue(now)).length;
  }

  #planReturn(now) {
    this.#returnTime = now + RETURN_MS * (1 + Math.random());
  }
}

/** Return true if a daemon answered that its ACLs are not loaded. */
function isNotReady(outcome) {
  if (outcome instanceof Error) return outcome instanceof NotReadyError;
  // A frame without questions has no decisions; then the offset says it.
  return outcome.codes.includes(NOT_READY) || (!outcome.codes.length && outcome.offset < 0);
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
