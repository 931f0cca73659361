// Encode the msgpack types that the decision stream uses. Decode every type, since later versions
// may append fields of any type to an answer.

const DEPTH_MAX = 16;
const OTHER = Symbol("a map or an extension");

/** Return the bytes of null, a text, an integer, or an array of these. Throws TypeError. */
export function encode(value) {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === "string") return encodeText(value);
  if (Number.isSafeInteger(value)) return encodeInteger(value);
  if (!Array.isArray(value)) throw new TypeError(`${typeof value} is not a text or an integer`);
  const head =
    value.length < 16 ? Buffer.from([0x90 | value.length]) : sizedHead(0xdc, 0xdd, value.length);
  return Buffer.concat([head, ...value.map(encode)]);
}

function encodeText(text) {
  // Encoding would replace a lone surrogate, and the question would name another resource.
  if (/\p{Surrogate}/u.test(text)) throw new TypeError("the text contains a lone surrogate");
  const content = Buffer.from(text, "utf8");
  const size = content.length;
  if (size < 32) return Buffer.concat([Buffer.from([0xa0 | size]), content]);
  return Buffer.concat([sizedHead(0xda, 0xdb, size), content]);
}

function encodeInteger(value) {
  if (value >= 0 && value < 128) return Buffer.from([value]);
  const bytes = Buffer.alloc(9, 0xd3);
  bytes.writeBigInt64BE(BigInt(value), 1);
  return bytes;
}

function sizedHead(form16, form32, size) {
  if (size < 0x10000) return Buffer.from([form16, size >> 8, size & 0xff]);
  const head = Buffer.alloc(5, form32);
  head.writeUInt32BE(size, 1);
  return head;
}

/** Return the one value that `bytes` encode. Throws Error if they encode anything else. */
export function decode(bytes) {
  const reader = { bytes, at: 0, depth: 0 };
  const value = readValue(reader);
  if (reader.at !== bytes.length) throw new Error("more bytes follow the value");
  return value;
}

function readValue(reader) {
  const form = take(reader, 1)[0];
  if (form <= 0x7f) return form;
  if (form <= 0x8f) return readMap(reader, form & 0x0f);
  if (form <= 0x9f) return readArray(reader, form & 0x0f);
  if (form <= 0xbf) return take(reader, form & 0x1f).toString("utf8");
  if (form >= 0xe0) return form - 0x100;
  const read = FORMS[form];
  if (!read) throw new Error(`${form} is not a type of msgpack`);
  return read(reader);
}

const FORMS = {
  0xc0: () => null,
  0xc2: () => false,
  0xc3: () => true,
  0xc4: (reader) => take(reader, number(reader, 1)),
  0xc5: (reader) => take(reader, number(reader, 2)),
  0xc6: (reader) => take(reader, number(reader, 4)),
  0xc7: (reader) => readExtension(reader, number(reader, 1)),
  0xc8: (reader) => readExtension(reader, number(reader, 2)),
  0xc9: (reader) => readExtension(reader, number(reader, 4)),
  0xca: (reader) => take(reader, 4).readFloatBE(0),
  0xcb: (reader) => take(reader, 8).readDoubleBE(0),
  0xcc: (reader) => number(reader, 1),
  0xcd: (reader) => number(reader, 2),
  0xce: (reader) => number(reader, 4),
  0xcf: (reader) => Number(take(reader, 8).readBigUInt64BE(0)),
  0xd0: (reader) => take(reader, 1).readInt8(0),
  0xd1: (reader) => take(reader, 2).readInt16BE(0),
  0xd2: (reader) => take(reader, 4).readInt32BE(0),
  0xd3: (reader) => Number(take(reader, 8).readBigInt64BE(0)),
  0xd4: (reader) => readExtension(reader, 1),
  0xd5: (reader) => readExtension(reader, 2),
  0xd6: (reader) => readExtension(reader, 4),
  0xd7: (reader) => readExtension(reader, 8),
  0xd8: (reader) => readExtension(reader, 16),
  0xd9: (reader) => take(reader, number(reader, 1)).toString("utf8"),
  0xda: (reader) => take(reader, number(reader, 2)).toString("utf8"),
  0xdb: (reader) => take(reader, number(reader, 4)).toString("utf8"),
  0xdc: (reader) => readArray(reader, number(reader, 2)),
  0xdd: (reader) => readArray(reader, number(reader, 4)),
  0xde: (reader) => readMap(reader, number(reader, 2)),
  0xdf: (reader) => readMap(reader, number(reader, 4)),
};

function number(reader, size) {
  return take(reader, size).readUIntBE(0, size);
}

// No field of the protocol may be a map or an extension: what stands for them only has another type.
function readMap(reader, size) {
  readArray(reader, 2 * size);
  return OTHER;
}

function readExtension(reader, size) {
  take(reader, size + 1);
  return OTHER;
}

function readArray(reader, size) {
  if (++reader.depth > DEPTH_MAX) throw new Error(`arrays are nested more than ${DEPTH_MAX} deep`);
  const array = [];
  for (let at = 0; at < size; at += 1) array.push(readValue(reader));
  reader.depth -= 1;
  return array;
}

function take(reader, size) {
  const end = reader.at + size;
  if (end > reader.bytes.length) throw new Error("the value is cut off");
  const taken = reader.bytes.subarray(reader.at, end);
  reader.at = end;
  return taken;
}
