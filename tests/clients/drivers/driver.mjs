// Calls the JavaScript client as a test says: reads frames of msgpack, which remote_clients.py writes.

import { readFileSync } from "node:fs";

const library = new URL("../../../clients/javascript/", import.meta.url);
const { Client } = await import(new URL("index.js", library));
const { decode, encode } = await import(new URL("lib/msgpack.js", library));
const { Connection, encodeRequest } = await import(new URL("lib/protocol.js", library));

const clients = new Map();
const clock = performance.now.bind(performance);
let shift = 0;
performance.now = () => clock() + shift;

const describe = ({ offset, codes, allowed }) => [offset, [...codes], allowed];

// A text that UTF-8 cannot encode comes as a list of UTF-16's units.
const toText = (value) => (Array.isArray(value) ? String.fromCharCode(...value) : value);
const toQuestion = (fields) => fields.map(toText);

function toTls([ca, certificate, maxVersion]) {
  const tls = maxVersion ? { maxVersion } : {};
  if (ca !== null) tls.ca = readFileSync(ca);
  if (certificate !== null) tls.cert = tls.key = readFileSync(certificate);
  return tls;
}

function newClient(addresses, flat) {
  const options = {};
  for (let index = 0; index < flat.length; index += 2) options[flat[index]] = flat[index + 1];
  if (options.tls) options.tls = toTls(options.tls);
  return new Client(addresses, options);
}

// For each input, the decisions about the frames that were answered with decisions.
async function receive(inputs, counts) {
  const received = [];
  for (const pieces of inputs) {
    const connection = new Connection(4096);
    const settled = [];
    for (const count of counts) {
      const questions = Array(count).fill(["User:a", null, "READ", "TOPIC", "t"]);
      const exchange = connection.ask(encodeRequest(questions, -1, 4096));
      const note = (value) => connection.error ?? settled.push(value);
      exchange.decisions.then((decisions) => note(describe(decisions)), () => note(null));
    }
    try {
      for (const piece of pieces) connection.receive(piece);
    } catch {
      // as expected of most inputs
    }
    await null; // the promises of what was settled
    await null;
    connection.end(new Error("the input has ended"));
    received.push(settled);
  }
  return received;
}

const commands = {
  new: (handle, addresses, options) => void clients.set(handle, newClient(addresses, options)),
  shift: (ms) => void (shift += ms),
  receive,
  recode: (content) => encode(decode(content)),
  offset: (handle) => clients.get(handle).offset,
  requireOffset: (handle, offset) => clients.get(handle).requireOffset(offset),
  close: (handle) => clients.get(handle).close(),
  connect: (handle) => clients.get(handle).connect(),
  readOffset: (handle) => clients.get(handle).readOffset(),
  decide: (handle, minOffset, timeoutMs, question) =>
    clients.get(handle).decide(toQuestion(question), optionsOf(minOffset, timeoutMs)),
  decideMany: async (handle, minOffset, timeoutMs, questions) =>
    describe(
      await clients
        .get(handle)
        .decideMany(questions.map(toQuestion), optionsOf(minOffset, timeoutMs)),
    ),
  filterAllowed: (handle, minOffset, timeoutMs, about, names) =>
    clients
      .get(handle)
      .filterAllowed(
        ...toQuestion(about).slice(0, 4),
        names.map(toText),
        optionsOf(minOffset, timeoutMs),
      ),
};

const optionsOf = (minOffset, timeoutMs) =>
  timeoutMs === null ? { minOffset } : { minOffset, timeoutMs };

async function serve([id, name, ...given]) {
  try {
    write([id, true, [(await commands[name](...given)) ?? null]]);
  } catch (error) {
    const { code, retryAfterMs } = error;
    const number = Number.isInteger(code) ? code : null;
    write([id, false, [error.name, error.message, number, retryAfterMs ?? null]]);
  }
}

// The library's own encoder knows no booleans and no bytes.
function encodeAny(value) {
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (!Array.isArray(value) && !Buffer.isBuffer(value)) return encode(value);
  const head = Buffer.from([0xdd, 0, 0, 0, 0]);
  head.writeUInt32BE(value.length, 1);
  if (Array.isArray(value)) return Buffer.concat([head, ...value.map(encodeAny)]);
  head[0] = 0xc6;
  return Buffer.concat([head, value]);
}

function write(answer) {
  const content = encodeAny(answer);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(content.length);
  process.stdout.write(Buffer.concat([size, content]));
}

let unread = [];
let size = 0;
process.stdin.on("data", (data) => {
  unread.push(data);
  size += data.length;
  while (size >= 4) {
    if (unread[0].length < 4) unread = [Buffer.concat(unread)];
    const end = 4 + unread[0].readUInt32BE(0);
    if (size < end) return;
    const whole = Buffer.concat(unread);
    serve(decode(whole.subarray(4, end)));
    unread = [whole.subarray(end)];
    size -= end;
  }
});
process.stdin.on("end", () => process.exit(0));
