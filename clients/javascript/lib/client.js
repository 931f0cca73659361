// The client: questions, their time limits, and when to ask again.

import { Daemons, FAILOVER_MS } from "./daemons.js";
import { NotReadyError, TimedOutError } from "./errors.js";
import { NOT_READY_TEXT } from "./texts.js";
import { Links } from "./links.js";
import {
  FRAME_BYTES_MAX,
  encodeRequest,
  isAllowed,
  planFrames,
  withMinOffset,
} from "./protocol.js";

const FRAMES_IN_FLIGHT_MAX = 256;

/** A client with one connection at a time; index.d.ts describes its methods. */
export class Client {
  offset = -1;
  #daemons;
  #links;
  #timeoutMs;
  #frameBytesMax;
  #requiredOffset = -1;

  constructor(
    address,
    {
      token = null,
      tls = null,
      timeoutMs = 5000,
      connectTimeoutMs = 5000,
      failoverTimeoutMs = FAILOVER_MS,
      frameBytesMax = FRAME_BYTES_MAX,
      framesInFlightMax = FRAMES_IN_FLIGHT_MAX,
    } = {},
  ) {
    this.#daemons = new Daemons(address, tls, failoverTimeoutMs);
    this.#links = new Links(this.#daemons, {
      token,
      connectTimeoutMs,
      failoverTimeoutMs,
      frameBytesMax,
      framesInFlightMax,
    });
    this.#timeoutMs = timeoutMs;
    this.#frameBytesMax = frameBytesMax;
  }

  async connect({ timeoutMs = this.#timeoutMs } = {}) {
    await this.#getLink(performance.now() + timeoutMs);
  }

  async decide(question, options = {}) {
    return isAllowed(await this.decideMany([question], options), 0, question);
  }

  async decideMany(questions, { minOffset = -1, timeoutMs = this.#timeoutMs } = {}) {
    const request = this.#encode(questions, minOffset);
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
    const offsets = new Map();
    for (const questions of planFrames(newQuestion, names, this.#frameBytesMax)) {
      const decisions = await this.#ask(this.#encode(questions, minOffset), limit, offsets);
      questions.forEach((question, index) => {
        if (isAllowed(decisions, index, question)) allowed.push(question[4]);
      });
    }
    return allowed;
  }

  async readOffset({ timeoutMs = this.#timeoutMs } = {}) {
    const request = encodeRequest([], -1, this.#frameBytesMax);
    const { offset } = await this.#ask(request, performance.now() + timeoutMs);
    if (offset < 0) throw new NotReadyError(NOT_READY_TEXT, 801);
    return offset;
  }

  requireOffset(offset) {
    this.#requiredOffset = Math.max(this.#requiredOffset, offset);
  }

  close() {
    this.#links.close();
  }

  #encode(questions, minOffset) {
    const required = Math.max(minOffset, this.#requiredOffset);
    return encodeRequest(questions, required, this.#frameBytesMax);
  }

  async #getLink(limit) {
    const link = await this.#links.get(limit);
    this.offset = Math.max(this.offset, link.offset);
    return link;
  }

  /**
   * Ask until a daemon decides, or no attempt or time is left.
   *
   * `offsets`: by which offset each daemon has decided for the same call; the answer is added.
   */
  async #ask(request, limit, offsets = new Map()) {
    for (let left = this.#daemons.attemptsMax - 1; ; left -= 1) {
      const link = await this.#getLink(limit);
      const outcome = await this.#exchange(link, request, limit, offsets, left === 0);
      if (this.#daemons.shouldRepeat(link.daemon, outcome, performance.now())) {
        this.#links.setAside(link, outcome);
        if (left > 0) continue;
      }
      if (outcome instanceof Error) throw outcome;
      link.daemon.succeed();
      offsets.set(link.daemon, outcome.offset);
      this.offset = Math.max(this.offset, outcome.offset);
      return outcome;
    }
  }

  /** Resolve to the decisions, or to the error that takes their place. */
  async #exchange(link, request, limit, offsets, isLast) {
    const now = performance.now();
    const attemptMs = this.#daemons.limitAttempt(link.daemon, now, limit - now, isLast);
    const ownOffset = offsets.get(link.daemon) ?? -1;
    try {
      return await link.ask(withMinOffset(request, ownOffset), limit, attemptMs);
    } catch (error) {
      if (error instanceof TimedOutError && link.hasEnded) this.#links.setAside(link, error);
      return error;
    }
  }
}
