package authorizerd.client;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;

/**
 * The client's half of one connection, without a socket.
 *
 * <p><b>Invariant:</b> decisions come only from a complete answer with error code 0, the expected
 * correlation id and one byte per question. Bytes that violate the protocol throw, and the
 * connection must end.
 */
final class Connection {
    /** Room for fields that later versions may append to an answer. */
    private static final int ANSWER_EXTRA_BYTES = 1024;

    private static final int SIZE_BYTES = 4;

    /** How a TLS server answers a client that does not speak TLS: an alert of version 3. */
    private static final int TLS_ALERT = 0x1503;

    /** Answers a frame that the daemon refused before it was complete. */
    private static final long NO_CORRELATION_ID = -1;

    /** Gets what the daemon has answered. */
    interface Answers {
        /** Exactly one of {@code decisions} and {@code error} is null. */
        void settle(Exchange exchange, Decisions decisions, AnswerException error);
    }

    /** Frames in flight, the oldest first. */
    final ArrayDeque<Exchange> inFlight = new ArrayDeque<>();

    private final int bytesMax;
    private final Msgpack.Bytes received = new Msgpack.Bytes(1024);
    private long correlationId;
    private boolean isGreeted;
    private long offset = -1;

    Connection(int frameBytesMax) {
        bytesMax = (int) Math.min(Integer.MAX_VALUE - 64L, (long) frameBytesMax + ANSWER_EXTRA_BYTES);
    }

    /** Return true once the daemon has answered the hello. */
    boolean isGreeted() {
        return isGreeted;
    }

    /** Return the log offset in the daemon's hello; -1 before it has arrived, or without ACLs. */
    long offset() {
        return offset;
    }

    /** Append the frame of a request to {@code to}. */
    Exchange ask(Protocol.Request request, Call call, Msgpack.Bytes to) {
        Exchange exchange = new Exchange(++correlationId, request.count(), call);
        Protocol.encodeFrame(to, exchange.correlationId, request);
        inFlight.add(exchange);
        return exchange;
    }

    /** Add data from the daemon. Throws if the connection must end. */
    void receive(ByteBuffer data, Answers answers) {
        received.reserve(data.remaining());
        int count = data.remaining();
        data.get(received.array, received.end, count);
        received.end += count;
        for (byte[] content = nextFrame(); content != null; content = nextFrame()) {
            if (isGreeted) {
                settleNext(readFields(content), answers);
            } else {
                greet(readFields(content));
            }
        }
    }

    private byte[] nextFrame() {
        if (received.size() < SIZE_BYTES) {
            return null;
        }
        ByteBuffer head = ByteBuffer.wrap(received.array, received.start, SIZE_BYTES);
        if (!isGreeted && head.getShort(head.position()) == TLS_ALERT) {
            throw new TlsException("the daemon expects TLS at this address: use tls://HOST:PORT");
        }
        long size = head.getInt() & 0xffffffffL;
        if (size > bytesMax) {
            throw new ProtocolException("expected a frame of at most " + bytesMax + " bytes, found " + size);
        }
        if (received.size() < SIZE_BYTES + size) {
            return null;
        }
        int start = received.start + SIZE_BYTES;
        byte[] content = Arrays.copyOfRange(received.array, start, start + (int) size);
        received.drop(SIZE_BYTES + content.length);
        return content;
    }

    private void greet(List<?> fields) {
        if (fields.size() < 4 || !"hello".equals(fields.get(0)) || !(fields.get(1) instanceof Long)
                || !(fields.get(2) instanceof Long code) || !(fields.get(3) instanceof Long found)) {
            throw new ProtocolException("expected the answer to a hello");
        }
        if (code != 0) {
            throw Protocol.newConnectionError(readCode(code));
        }
        offset = found;
        isGreeted = true;
    }

    private void settleNext(List<?> fields, Answers answers) {
        if (fields.size() < 4 || !(fields.get(0) instanceof Long id) || !(fields.get(1) instanceof Long code)
                || !(fields.get(2) instanceof Long found) || !(fields.get(3) instanceof byte[] codes)) {
            throw new ProtocolException("expected an answer");
        }
        if (id == NO_CORRELATION_ID && code != 0) {
            throw Protocol.newConnectionError(readCode(code));
        }
        Exchange oldest = inFlight.peek();
        if (oldest == null || oldest.correlationId != id) {
            String expected = oldest == null ? "no answer" : "id " + oldest.correlationId;
            throw new ProtocolException("expected " + expected + ", found an answer with correlation id " + id);
        }
        if (code == 0 && codes.length != oldest.count) {
            throw new ProtocolException("expected " + oldest.count + " decisions, found " + codes.length);
        }
        AnswerException error = code == 0 ? null : Protocol.newFrameError(readCode(code));
        inFlight.remove();
        answers.settle(oldest, error == null ? new Decisions(found, codes) : null, error);
    }

    private static int readCode(long code) {
        if (code != (int) code) {
            throw new ProtocolException("expected an error code, found " + code);
        }
        return (int) code;
    }

    private static List<?> readFields(byte[] content) {
        try {
            if (Msgpack.decode(content) instanceof List<?> fields) {
                return fields;
            }
        } catch (Msgpack.FormatException error) {
            throw new ProtocolException("expected a msgpack array: " + error.getMessage(), error);
        }
        throw new ProtocolException("expected a msgpack array");
    }
}
