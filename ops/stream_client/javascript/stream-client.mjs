// A client of the decision stream (docs/stream.md) for Node.js, without packages.
//
// Law: true is what the daemon said is allowed. Whatever else happens is false or an error, and who
// asks takes an error for a denial. After anything that cannot be, the connection is closed.
//
//   const client = await StreamClient.open("127.0.0.1:8183");
//   const { allowed } = await client.ask([["User:alice", null, "READ", "TOPIC", "orders"]]);

import { createConnection } from "node:net";

const VERSION = 1;
const ALLOWED = 1;
const FRAME_BYTES_MAX = 16 * 1024 * 1024;
const NOT_FOUND = Symbol("no whole value");

/** The daemon's error: `code` is Kafka's, 801 while it is not ready. */
export class AnswerError extends Error {
  constructor(code) {
    super(`the daemon answered with error ${code}`);
    this.code = code;
  }
}

/** One connection; many questions may wait for their answers at once. */
export class StreamClient {
  #socket;
  #timeoutMs;
  #received = Buffer.alloc(0);
  #waiting = []; // in the order of the frames, which is that of the answers
  #error = null;
  #correlationId = 0;

  constructor(socket, timeoutMs) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.setNoDelay(true);
    socket.on("data", (data) => this.#receive(data));
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end(new Error("the daemon closed the connection")));
  }

  /** Connect to `host:port` or `unix:PATH`; rejects where the daemon is not there, or refuses. */
  static async open(address, { token = null, timeoutMs = 5000 } = {}) {
    const client = new StreamClient(createConnection(placeOf(address)), timeoutMs);
    const [word, , errorCode, offset] = await client.#exchange(["hello", VERSION, token], 4);
    if (errorCode === 0 && word === "hello") {
      client.offset = offset;
      return client;
    }
    client.close();
    throw word === "hello" ? new AnswerError(errorCode) : new Error("no answer to a hello");
  }

  /** Resolve to `{ allowed, codes, offset }`, one entry a question; reject where there is none. */
  async ask(questions, { minOffset = -1 } = {}) {
    this.#correlationId += 1;
    const asked = [this.#correlationId, questions];
    if (minOffset >= 0) asked.push(minOffset);
    const [number, errorCode, offset, decisions] = await this.#exchange(asked, 4);
    if (number !== asked[0] || !Buffer.isBuffer(decisions)) {
      throw this.#end(new Error("an answer to another question"));
    }
    if (errorCode !== 0) throw new AnswerError(errorCode);
    if (decisions.length !== questions.length) {
      throw this.#end(new Error(`${decisions.length} decisions on ${questions.length} questions`));
    }
    return { allowed: Array.from(decisions, (code) => code === ALLOWED), codes: decisions, offset };
  }

  /** End the connection; whoever waits is rejected. */
  close() {
    this.#end(new Error("the client was closed"));
  }

  #exchange(array, fieldsMin) {
    if (this.#error) return Promise.reject(this.#error);
    const content = encode(array);
    const size = Buffer.alloc(4);
    size.writeUInt32BE(content.length);
    return new Promise((resolve, reject) => {
      const late = () => this.#end(new Error("the daemon does not answer"));
      const timer = setTimeout(late, this.#timeoutMs);
      this.#waiting.push({ resolve, reject, timer, fieldsMin });
      this.#socket.write(Buffer.concat([size, content]));
    });
  }

  #receive(data) {
    this.#received = this.#received.length ? Buffer.concat([this.#received, data]) : data;
    try {
      for (let array; !this.#error && (array = this.#nextFrame()) !== NOT_FOUND; ) {
        const waiting = this.#waiting.shift();
        if (!waiting) throw new Error("an answer to nothing");
        clearTimeout(waiting.timer);
        if (Array.isArray(array) && array.length >= waiting.fieldsMin) {
          waiting.resolve(array);
        } else {
          waiting.reject(this.#end(new Error("no answer")));
        }
      }
    } catch (error) {
      this.#end(error);
    }
  }

  #nextFrame() {
    if (this.#received.length < 4) return NOT_FOUND;
    const size = this.#received.readUInt32BE(0);
    if (size > FRAME_BYTES_MAX) throw new Error(`a frame of ${size} bytes`);
    if (this.#received.length < 4 + size) return NOT_FOUND;
    const content = this.#received.subarray(4, 4 + size);
    this.#received = this.#received.subarray(4 + size);
    return decode(content);
  }

  /** Close, reject whoever waits, and return the error. */
  #end(error) {
    this.#error ??= error;
    this.#socket.destroy();
    for (const { reject, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      reject(this.#error);
    }
    return error;
  }
}

function placeOf(address) {
  if (address.startsWith("unix:")) return { path: address.slice("unix:".length) };
  const at = address.lastIndexOf(":");
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(address.slice(at + 1)) };
}

// The few forms of msgpack that the stream is made of: what has a larger form is always written so.

/** The bytes of nil, a text, an integer or an array of these. */
export function encode(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === "string") {
    // Half a character would be sent as another, and the question would be about another name.
    if (/\p{Surrogate}/u.test(value)) throw new TypeError("a text with half a character");
    return sized(0xdb, Buffer.from(value, "utf8"));
  }
  if (Number.isSafeInteger(value)) {
    const bytes = Buffer.alloc(9, 0xd3);
    bytes.writeBigInt64BE(BigInt(value), 1);
    return bytes;
  }
  if (!Array.isArray(value)) throw new TypeError(`${typeof value} is not sent`);
  return sized(0xdd, Buffer.concat(value.map(encode)), value.length);
}

function sized(form, content, size = content.length) {
  const head = Buffer.alloc(5, form);
  head.writeUInt32BE(size, 1);
  return Buffer.concat([head, content]);
}

/** The value of which `bytes` are made; throws where they are not just one. */
export function decode(bytes) {
  const reader = { bytes, at: 0, depth: 0 };
  const value = readValue(reader);
  if (reader.at !== bytes.length) throw new Error("bytes behind the array");
  return value;
}

function readValue(reader) {
  const form = take(reader, 1)[0];
  if (form <= 0x7f) return form;
  if (form >= 0xe0) return form - 0x100;
  if (form >= 0x90 && form <= 0x9f) return readArray(reader, form & 0x0f);
  if (form >= 0xa0 && form <= 0xbf) return take(reader, form & 0x1f).toString("utf8");
  const read = FORMS[form];
  if (!read) throw new Error(`msgpack of form ${form} is not understood`);
  return read(reader);
}

const FORMS = {
  0xc0: () => null,
  0xc2: () => false,
  0xc3: () => true,
  0xc4: (reader) => take(reader, number(reader, 1)),
  0xc5: (reader) => take(reader, number(reader, 2)),
  0xc6: (reader) => take(reader, number(reader, 4)),
  0xcc: (reader) => number(reader, 1),
  0xcd: (reader) => number(reader, 2),
  0xce: (reader) => number(reader, 4),
  0xcf: (reader) => Number(take(reader, 8).readBigUInt64BE(0)),
  0xd0: (reader) => take(reader, 1).readInt8(0),
  0xd1: (reader) => take(reader, 2).readInt16BE(0),
  0xd2: (reader) => take(reader, 4).readInt32BE(0),
  0xd3: (reader) => Number(take(reader, 8).readBigInt64BE(0)),
  0xd9: (reader) => take(reader, number(reader, 1)).toString("utf8"),
  0xda: (reader) => take(reader, number(reader, 2)).toString("utf8"),
  0xdb: (reader) => take(reader, number(reader, 4)).toString("utf8"),
  0xdc: (reader) => readArray(reader, number(reader, 2)),
  0xdd: (reader) => readArray(reader, number(reader, 4)),
};

function number(reader, size) {
  return take(reader, size).readUIntBE(0, size);
}

function readArray(reader, size) {
  if (++reader.depth > 16) throw new Error("arrays too deep in one another");
  const array = [];
  for (let at = 0; at < size; at += 1) array.push(readValue(reader));
  reader.depth -= 1;
  return array;
}

function take(reader, size) {
  const end = reader.at + size;
  if (end > reader.bytes.length) throw new Error("a value that is cut off");
  const taken = reader.bytes.subarray(reader.at, end);
  reader.at = end;
  return taken;
}
