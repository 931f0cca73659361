package authorizerd.client;

import java.nio.ByteBuffer;
import java.util.function.Consumer;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/**
 * The TLS of one connection, without a socket.
 *
 * <p>The long steps of a handshake, such as the check of a certificate, run in a thread of their
 * own, since a trust manager may even ask the network.
 */
final class TlsSession {
    /** Plaintext waits while this many bytes have not been sent. */
    private static final int UNSENT_BYTES_MAX = 256 * 1024;

    private static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

    private final SSLEngine engine;
    private final Loop loop;
    private final Msgpack.Bytes received = new Msgpack.Bytes(4096);
    private final ByteBuffer plain;
    private boolean isBusy;
    private boolean isEstablished;
    private boolean hasEnded;

    TlsSession(SSLEngine engine, Loop loop) throws SSLException {
        this.engine = engine;
        this.loop = loop;
        engine.beginHandshake(); // before this, the engine is not handshaking, as it is afterwards
        plain = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize());
    }

    /** Return true once the daemon's certificate has passed the checks. */
    boolean isEstablished() {
        return isEstablished;
    }

    /** Return true once the daemon has ended the session. A failed check does not count: it throws. */
    boolean hasEnded() {
        return hasEnded;
    }

    /** Add what the socket has received. */
    void receive(ByteBuffer data) {
        int count = data.remaining();
        received.reserve(count);
        data.get(received.array, received.end, count);
        received.end += count;
    }

    /**
     * Go on as far as the data permits.
     *
     * @param outgoing plaintext, which is encrypted once the session is established
     * @param toSocket gets what the socket must send
     * @param sink gets the decrypted data
     * @param onTask continues after a long step, in the loop's thread
     */
    void advance(Msgpack.Bytes outgoing, Msgpack.Bytes toSocket, Consumer<ByteBuffer> sink, Runnable onTask)
            throws SSLException {
        while (!isBusy) {
            HandshakeStatus status = engine.getHandshakeStatus();
            if (status == HandshakeStatus.NEED_TASK) {
                startTask(onTask);
            } else if (status == HandshakeStatus.NEED_WRAP) {
                if (!encrypt(EMPTY, toSocket)) {
                    return;
                }
            } else if (status == HandshakeStatus.NOT_HANDSHAKING && !isEstablished) {
                isEstablished = true;
                sink.accept(EMPTY); // the receiver may now send
            } else if (!decrypt(sink) && !(isEstablished && encryptSome(outgoing, toSocket))) {
                return;
            }
        }
    }

    private boolean encryptSome(Msgpack.Bytes outgoing, Msgpack.Bytes toSocket) throws SSLException {
        if (outgoing.size() == 0 || toSocket.size() > UNSENT_BYTES_MAX) {
            return false;
        }
        ByteBuffer source = ByteBuffer.wrap(outgoing.array, outgoing.start, outgoing.size());
        int before = source.remaining();
        boolean isDone = encrypt(source, toSocket);
        outgoing.drop(before - source.remaining());
        return isDone;
    }

    /** Return true if the engine has written a record. */
    private boolean encrypt(ByteBuffer source, Msgpack.Bytes toSocket) throws SSLException {
        if (toSocket.size() > 4 * UNSENT_BYTES_MAX) {
            throw new SSLException("the daemon does not read what it has asked for");
        }
        toSocket.reserve(engine.getSession().getPacketBufferSize());
        int room = toSocket.array.length - toSocket.end;
        SSLEngineResult result = engine.wrap(source, ByteBuffer.wrap(toSocket.array, toSocket.end, room));
        toSocket.end += result.bytesProduced();
        return result.bytesProduced() > 0;
    }

    /** Return true if the engine has read a record. */
    private boolean decrypt(Consumer<ByteBuffer> sink) throws SSLException {
        if (received.size() == 0 || hasEnded) {
            return false;
        }
        plain.clear();
        SSLEngineResult result =
                engine.unwrap(ByteBuffer.wrap(received.array, received.start, received.size()), plain);
        if (result.getStatus() == SSLEngineResult.Status.BUFFER_OVERFLOW) {
            throw new SSLException("the daemon sent a record that is larger than TLS permits");
        }
        hasEnded = result.getStatus() == SSLEngineResult.Status.CLOSED;
        received.drop(result.bytesConsumed());
        plain.flip();
        if (plain.hasRemaining()) {
            sink.accept(plain);
        }
        return result.bytesConsumed() > 0 || result.getHandshakeStatus() == HandshakeStatus.NEED_TASK;
    }

    /** Append the alert that tells the daemon why the handshake has failed. */
    void encodeAlert(Msgpack.Bytes toSocket) {
        try {
            while (engine.getHandshakeStatus() == HandshakeStatus.NEED_WRAP && encrypt(EMPTY, toSocket)) {
                // the alert has one record
            }
        } catch (SSLException ignored) {
            // the engine throws the reason again
        }
    }

    private void startTask(Runnable onTask) {
        Runnable task = engine.getDelegatedTask();
        if (task == null) {
            return;
        }
        isBusy = true;
        Loop.newThread("authorizerd-client-tls", () -> {
            try {
                task.run();
            } finally {
                loop.execute(() -> {
                    isBusy = false;
                    onTask.run();
                });
            }
        }).start();
    }
}
