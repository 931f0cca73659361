package authorizerd.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Encode the msgpack types that the decision stream uses. Decode every type, since later versions
 * may append fields of any type to an answer.
 */
final class Msgpack {
    private static final int DEPTH_MAX = 16;
    private static final Object OTHER = new Object();

    private Msgpack() {}

    /** A value that cannot be encoded, or bytes that are not one value. */
    static final class FormatException extends Exception {
        private static final long serialVersionUID = 1;

        FormatException(String message) {
            super(message);
        }
    }

    /** Bytes that grow at their end and are taken from their start. */
    static final class Bytes {
        private static final int KEPT_BYTES_MAX = 1 << 20;

        byte[] array;
        int start;
        int end;

        Bytes(int capacity) {
            array = new byte[capacity];
        }

        int size() {
            return end - start;
        }

        /** Remove {@code count} bytes from the start. */
        void drop(int count) {
            start += count;
            if (start == end) {
                start = end = 0;
                if (array.length > KEPT_BYTES_MAX) {
                    array = new byte[4096];
                }
            }
        }

        /** Make room for {@code count} bytes at the end. */
        void reserve(int count) {
            if (array.length - end >= count) {
                return;
            }
            int size = size();
            int needed = Math.addExact(size, count);
            byte[] source = array;
            if (needed > array.length / 2) {
                array = new byte[(int) Math.min(Integer.MAX_VALUE - 8L, Math.max(needed, 2L * array.length))];
            }
            System.arraycopy(source, start, array, 0, size);
            start = 0;
            end = size;
        }

        void put(int value) {
            reserve(1);
            array[end++] = (byte) value;
        }

        void putInt(int value) {
            reserve(4);
            for (int shift = 24; shift >= 0; shift -= 8) {
                array[end++] = (byte) (value >> shift);
            }
        }

        void put(byte[] values) {
            reserve(values.length);
            System.arraycopy(values, 0, array, end, values.length);
            end += values.length;
        }

        byte[] toArray() {
            return Arrays.copyOfRange(array, start, end);
        }
    }

    static void encodeNil(Bytes to) {
        to.put(0xc0);
    }

    static void encodeInteger(Bytes to, long value) {
        if (value >= 0 && value < 128) {
            to.put((int) value);
        } else {
            to.put(0xd3);
            to.putInt((int) (value >> 32));
            to.putInt((int) value);
        }
    }

    /** Encode {@code text}, or nil for null. */
    static void encodeText(Bytes to, String text) throws FormatException {
        if (text == null) {
            encodeNil(to);
            return;
        }
        rejectLoneSurrogates(text);
        byte[] content = text.getBytes(StandardCharsets.UTF_8);
        if (content.length < 32) {
            to.put(0xa0 | content.length);
        } else {
            encodeSize(to, 0xda, content.length);
        }
        to.put(content);
    }

    static void encodeArrayHead(Bytes to, int size) {
        if (size < 16) {
            to.put(0x90 | size);
        } else {
            encodeSize(to, 0xdc, size);
        }
    }

    private static void encodeSize(Bytes to, int form16, int size) {
        if (size < 0x10000) {
            to.put(form16);
            to.put(size >> 8);
            to.put(size);
        } else {
            to.put(form16 + 1);
            to.putInt(size);
        }
    }

    /** Encoding would replace a lone surrogate, and the question would name another resource. */
    private static void rejectLoneSurrogates(String text) throws FormatException {
        for (int at = 0; at < text.length(); at++) {
            char first = text.charAt(at);
            if (!Character.isSurrogate(first)) {
                continue;
            }
            at++;
            if (at == text.length() || !Character.isSurrogatePair(first, text.charAt(at))) {
                throw new FormatException("the text contains a lone surrogate");
            }
        }
    }

    /**
     * Return the one value that {@code bytes} encode.
     *
     * <p>Integers are {@link Long}, texts {@link String}, binary data {@code byte[]}, and arrays {@link
     * List}. No field of the protocol may be anything else, so what stands for a map, an extension or
     * an integer above {@link Long#MAX_VALUE} only has another type.
     */
    static Object decode(byte[] bytes) throws FormatException {
        Reader reader = new Reader(bytes);
        Object value = reader.readValue();
        if (reader.at != bytes.length) {
            throw new FormatException("more bytes follow the value");
        }
        return value;
    }

    private static final class Reader {
        private final byte[] bytes;
        private int at;
        private int depth;

        Reader(byte[] bytes) {
            this.bytes = bytes;
        }

        Object readValue() throws FormatException {
            int form = bytes[skip(1)] & 0xff;
            if (form <= 0x7f) {
                return (long) form;
            } else if (form <= 0x8f) {
                return readMap(form & 0x0f);
            } else if (form <= 0x9f) {
                return readArray(form & 0x0f);
            } else if (form <= 0xbf) {
                return readText(form & 0x1f);
            } else if (form >= 0xe0) {
                return (long) (byte) form;
            }
            return switch (form) {
                case 0xc0 -> null;
                case 0xc2 -> false;
                case 0xc3 -> true;
                case 0xc4, 0xc5, 0xc6 -> readBytes(readUnsigned(1 << (form - 0xc4)));
                case 0xc7, 0xc8, 0xc9 -> readExtension(readUnsigned(1 << (form - 0xc7)));
                case 0xca -> (double) Float.intBitsToFloat((int) readUnsigned(4));
                case 0xcb -> Double.longBitsToDouble(readUnsigned(8));
                case 0xcc, 0xcd, 0xce -> readUnsigned(1 << (form - 0xcc));
                case 0xcf -> {
                    long value = readUnsigned(8);
                    yield value < 0 ? OTHER : (Object) value;
                }
                case 0xd0 -> (long) (byte) readUnsigned(1);
                case 0xd1 -> (long) (short) readUnsigned(2);
                case 0xd2 -> (long) (int) readUnsigned(4);
                case 0xd3 -> readUnsigned(8);
                case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8 -> readExtension(1 << (form - 0xd4));
                case 0xd9, 0xda, 0xdb -> readText(readUnsigned(1 << (form - 0xd9)));
                case 0xdc, 0xdd -> readArray(readUnsigned(2 << (form - 0xdc)));
                case 0xde, 0xdf -> readMap(readUnsigned(2 << (form - 0xde)));
                default -> throw new FormatException(form + " is not a type of msgpack");
            };
        }

        private long readUnsigned(int size) throws FormatException {
            int start = skip(size);
            long value = 0;
            for (int index = 0; index < size; index++) {
                value = value << 8 | bytes[start + index] & 0xff;
            }
            return value;
        }

        private byte[] readBytes(long size) throws FormatException {
            int start = skip(size);
            return Arrays.copyOfRange(bytes, start, at);
        }

        private String readText(long size) throws FormatException {
            int start = skip(size);
            return new String(bytes, start, (int) size, StandardCharsets.UTF_8);
        }

        private Object readExtension(long size) throws FormatException {
            skip(size + 1);
            return OTHER;
        }

        private Object readMap(long size) throws FormatException {
            readArray(2 * size);
            return OTHER;
        }

        private List<Object> readArray(long size) throws FormatException {
            if (++depth > DEPTH_MAX) {
                throw new FormatException("arrays are nested more than " + DEPTH_MAX + " deep");
            }
            List<Object> array = new ArrayList<>();
            for (long count = 0; count < size; count++) {
                array.add(readValue());
            }
            depth--;
            return array;
        }

        /** Move behind the next {@code size} bytes, and return where they start. */
        private int skip(long size) throws FormatException {
            if (size > bytes.length - at) {
                throw new FormatException("the value is cut off");
            }
            int start = at;
            at += (int) size;
            return start;
        }
    }
}
