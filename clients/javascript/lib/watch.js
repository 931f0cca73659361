// A watch of ACLs: a listing first, and then every change, over the daemon's HTTP port.
//
// Invariant: whatever connection breaks wherever, the events lead from one state of the ACLs to the
// next: each change is there once, in order, and a batch is whole. Where that is impossible, a new
// listing begins again.

import http from "node:http";
import https from "node:https";

import {
  ConnectionLostError,
  ForbiddenError,
  InvalidRequestError,
  OverloadedError,
  ProtocolError,
  TimedOutError,
  TlsError,
  TokenRefusedError,
} from "./errors.js";

const SILENCE_MS = 30_000; // the daemon sends a heartbeat every 10 seconds
const DELAY_MS_MIN = 50;
const DELAY_MS_MAX = 5000;
const RETRY_AFTER_MS = 1000;
const LINE_CHARACTERS_MAX = 64 * 1024 * 1024;
const TLS_CODE = /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|UNABLE_TO/;
const NAMES = [
  "resource_type",
  "resource_name",
  "pattern_type",
  "principal",
  "host",
  "operation",
  "permission_type",
];

/** Yield the ACLs of a daemon and all their changes; index.d.ts describes the events. */
export async function* watch(
  address,
  { token = null, tls = null, silenceMs = SILENCE_MS, retryMs = Infinity } = {},
) {
  const url = parseAddress(address);
  const state = { offset: null, isSuspended: false, failures: 0, answeredAt: performance.now() };
  while (true) {
    try {
      yield* follow(url, { token, tls: tls ?? {}, silenceMs }, state);
    } catch (error) {
      if (
        !(error instanceof ConnectionLostError) &&
        !(error instanceof TimedOutError) &&
        !(error instanceof OverloadedError)
      ) {
        throw error;
      }
      if (performance.now() - state.answeredAt >= retryMs) {
        throw new ConnectionLostError(`not connected: ${error.message}`);
      }
      await pause(state.failures);
      state.failures += 1;
    }
  }
}

/** Send one request, and yield the events in its answer. */
async function* follow(url, options, state) {
  const isListing = state.offset === null;
  const path = isListing ? "/v1/acls" : `/v1/watch?after=${state.offset}`;
  const response = await ask(new URL(path, url), options);
  try {
    if (response.statusCode !== 200) {
      const text = await readText(response);
      if (response.statusCode !== 410 || isListing) {
        throw newError(response.statusCode, text);
      }
      state.offset = null;
      return;
    }
    if (isListing) {
      const listing = await readListing(response);
      noteAnswer(state);
      state.offset = listing.offset;
      state.isSuspended = false;
      yield listing;
      return;
    }
    yield* readEvents(response, state);
  } finally {
    response.destroy();
  }
}

async function* readEvents(response, state) {
  let fields = new Map();
  let changes = [];
  for await (const line of linesOf(response)) {
    noteAnswer(state);
    if (line.startsWith(":")) {
      continue;
    }
    if (line) {
      const colon = line.indexOf(":");
      fields.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ""));
      continue;
    }
    const name = fields.get("event");
    const data = fields.has("data") ? parse(fields.get("data")) : null;
    const id = fields.get("id");
    fields = new Map();
    if (id !== undefined) {
      if (!/^-?\d{1,15}$/.test(id)) {
        throw unexpected();
      }
      state.offset = Number(id);
    }
    if (data === null) {
      continue;
    }
    if (name === "acls") {
      changes.push(...readChanges(data));
      if (data.more === false) {
        const whole = changes;
        changes = [];
        yield { type: "changes", offset: data.offset, changes: whole };
      }
    } else if (name === "suspended") {
      state.isSuspended = true;
      yield { type: "suspended", reason: String(data.reason) };
    } else if (name === "begin" || name === "resumed") {
      // A daemon that does not decide begins no watch.
      if (state.isSuspended) {
        state.isSuspended = false;
        yield { type: "resumed" };
      }
    } else if (name === "expired") {
      state.offset = null;
      return;
    } else if (name === "closed") {
      break; // the answer to the next request says whether it can go on
    }
  }
  throw new ConnectionLostError("the daemon has ended the watch");
}

async function readListing(response) {
  const acls = new Map();
  let offset = null;
  let count = null;
  for await (const line of linesOf(response)) {
    const found = parse(line);
    if (offset === null) {
      offset = found.offset;
    } else if ("count" in found) {
      count = found.count;
    } else {
      acls.set(textIn(found, "id"), aclIn(found));
    }
  }
  if (!Number.isSafeInteger(offset) || count !== acls.size) {
    throw new ConnectionLostError("the listing is incomplete");
  }
  return { type: "listing", offset, acls };
}

async function* linesOf(response) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let unread = "";
  try {
    for await (const data of response) {
      let text;
      try {
        text = decoder.decode(data, { stream: true });
      } catch {
        throw unexpected();
      }
      const lines = (unread + text).split("\n");
      unread = lines.pop();
      if (unread.length > LINE_CHARACTERS_MAX) {
        throw unexpected();
      }
      yield* lines;
    }
  } catch (error) {
    throw toLost(error);
  }
}

async function readText(response) {
  let text = "";
  for await (const line of linesOf(response)) {
    text += line;
  }
  return text.slice(0, 1000);
}

function ask(url, { token, tls, silenceMs }) {
  const isTls = url.protocol === "https:";
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const request = (isTls ? https : http).get(url, {
      headers,
      agent: false,
      ...(isTls ? tls : {}),
    });
    const end = (did) =>
      request.destroy(new TimedOutError(`the daemon has ${did} for ${silenceMs} ms`));
    // For the whole head: a peer that sends it byte by byte is never silent.
    const timer = setTimeout(() => end("not answered"), silenceMs);
    request.on("close", () => clearTimeout(timer));
    request.on("response", (response) => {
      clearTimeout(timer);
      request.setTimeout(silenceMs, () => end("been silent"));
      resolve(response);
    });
    request.on("error", (error) => reject(toLost(error)));
  });
}

function toLost(error) {
  if (error.code === undefined || typeof error.code === "number") {
    return error; // an error of this client
  }
  if (TLS_CODE.test(error.code)) {
    return new TlsError(error.message);
  }
  if (String(error.code).startsWith("HPE_")) {
    return new ProtocolError(`expected an HTTP answer: ${error.message}`);
  }
  return new ConnectionLostError(`the connection broke: ${error.message}`);
}

function newError(status, text) {
  switch (status) {
    case 400:
      return new InvalidRequestError(text, status);
    case 401:
      return new TokenRefusedError(text, status);
    case 403:
      return new ForbiddenError(text, status);
    case 503:
      return new OverloadedError(text, status, RETRY_AFTER_MS);
    default:
      return new ProtocolError(`status ${status}: ${text.slice(0, 200)}`);
  }
}

function readChanges(data) {
  if (!Array.isArray(data.changes) || !Number.isSafeInteger(data.offset)) {
    throw unexpected();
  }
  return data.changes.map((each) => {
    if (each?.change !== "add" && each?.change !== "remove") {
      throw unexpected();
    }
    return { change: each.change, id: textIn(each, "id"), acl: aclIn(each) };
  });
}

function aclIn(found) {
  const acl = found.acl;
  if (typeof acl !== "object" || acl === null || NAMES.some((name) => typeof acl[name] !== "string")) {
    throw unexpected();
  }
  return acl;
}

function textIn(found, name) {
  if (typeof found[name] !== "string") {
    throw unexpected();
  }
  return found[name];
}

function parse(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw unexpected();
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw unexpected();
  }
  return found;
}

function unexpected() {
  return new ProtocolError("the daemon sent something other than a listing or events of ACLs");
}

function noteAnswer(state) {
  state.failures = 0;
  state.answeredAt = performance.now();
}

// Half of the delay is random, so that the clients of a daemon that restarts do not all return at
// the same moment.
function pause(failures) {
  const doubled = DELAY_MS_MIN * 2 ** Math.min(failures, 30);
  const ms = (Math.min(DELAY_MS_MAX, doubled) * (1 + Math.random())) / 2;
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function parseAddress(address) {
  const found = /^(https?:\/\/(?:\[[0-9A-Fa-f:.]+\]|[^/:]+):\d{1,5})\/?$/.exec(address);
  if (found === null) {
    throw new TypeError(
      `invalid address '${address}': expected http://HOST:PORT or https://HOST:PORT`,
    );
  }
  return found[1];
}
