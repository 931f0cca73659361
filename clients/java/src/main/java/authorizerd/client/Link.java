package authorizerd.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;

/** One connection to one daemon: its socket, its TLS and the calls that wait for its answers. */
final class Link {
    private static final String CLOSED_EARLY = "the daemon closed the connection without answering the hello;"
            + " if it expects TLS at this address, use tls://HOST:PORT";
    private static final int WRITE_BYTES = 64 * 1024;
    private static final int READS_PER_TURN = 16;

    /** Gets what becomes of the calls that this connection has. */
    interface Owner {
        /** Exactly one of {@code decisions} and {@code error} is null. */
        void onOutcome(Call call, Link link, Decisions decisions, AuthorizerdException error);
    }

    final Daemon daemon;
    private final Loop loop;
    private final Owner owner;
    private final Connection connection;
    private final int framesInFlightMax;
    private final ArrayDeque<Call> waitingForRoom = new ArrayDeque<>();
    private final Msgpack.Bytes outgoing = new Msgpack.Bytes(4096);
    private final Msgpack.Bytes encrypted = new Msgpack.Bytes(0);

    private String token;
    private Runnable onGreeted;
    private Consumer<AuthorizerdException> onFailed;
    private Loop.Timer greetingTimer;
    private Loop.Timer addressTimer;
    private Iterator<InetAddress> addresses;
    private int addressesLeft;
    private long greetingLimit;

    private SocketChannel channel;
    private SelectionKey key;
    private boolean isConnected;
    private TlsSession tls;
    private boolean isFlushPlanned;
    private boolean isRetired;
    private AuthorizerdException error;

    Link(Daemon daemon, Loop loop, Owner owner, int frameBytesMax, int framesInFlightMax) {
        this.daemon = daemon;
        this.loop = loop;
        this.owner = owner;
        this.framesInFlightMax = framesInFlightMax;
        connection = new Connection(frameBytesMax);
    }

    boolean hasEnded() {
        return error != null;
    }

    /** Return the log offset in the answer to the hello; -1 if the ACLs are not loaded. */
    long offset() {
        return connection.offset();
    }

    /**
     * Connect, and send the hello.
     *
     * @param nanos the time limit until the hello is answered
     * @param onGreeted is called once it is
     * @param onFailed is called instead if the connection ends before
     */
    void greet(String token, long nanos, Runnable onGreeted, Consumer<AuthorizerdException> onFailed) {
        this.token = token;
        this.onGreeted = onGreeted;
        this.onFailed = onFailed;
        greetingLimit = loop.now() + nanos;
        greetingTimer = loop.at(greetingLimit,
                () -> end(new ConnectionLostException("the daemon did not answer in time")));
        if (daemon.path != null) {
            loop.execute(this::connectToPath);
        } else {
            daemon.lookUp().whenComplete((found, failure) -> loop.execute(() -> start(found, failure)));
        }
    }

    private void start(InetAddress[] found, Throwable failure) {
        if (hasEnded()) {
            return;
        }
        if (failure != null) {
            end(new ConnectionLostException("the name '" + daemon.host + "' was not found", failure));
            return;
        }
        addresses = List.of(found).iterator();
        addressesLeft = found.length;
        connectToNext();
    }

    /** Try the next address of the host; each gets an equal part of the time that is left. */
    private void connectToNext() {
        loop.cancel(addressTimer);
        closeChannel();
        InetAddress address = addresses.next();
        if (addressesLeft > 1) {
            long now = loop.now();
            addressTimer = loop.at(now + (greetingLimit - now) / addressesLeft,
                    () -> onConnectFailed(new IOException("the connection was not accepted in time")));
        }
        addressesLeft--;
        try {
            connect(SocketChannel.open(), new InetSocketAddress(address, daemon.port));
        } catch (IOException | RuntimeException failure) {
            onConnectFailed(failure);
        }
    }

    private void connectToPath() {
        if (hasEnded()) {
            return;
        }
        try {
            connect(SocketChannel.open(StandardProtocolFamily.UNIX), UnixDomainSocketAddress.of(daemon.path));
        } catch (IOException | RuntimeException failure) {
            onConnectFailed(failure);
        }
    }

    private void connect(SocketChannel opened, SocketAddress to) throws IOException {
        channel = opened;
        channel.configureBlocking(false);
        if (daemon.path == null) {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        }
        boolean isDone = channel.connect(to);
        key = channel.register(loop.selector(), isDone ? 0 : SelectionKey.OP_CONNECT, (Runnable) this::onReady);
        if (isDone) {
            onConnected();
        }
    }

    private void onConnectFailed(Exception failure) {
        if (addressesLeft > 0) {
            connectToNext();
        } else {
            end(new ConnectionLostException("the connection broke: " + failure.getMessage(), failure));
        }
    }

    private void onConnected() throws IOException {
        loop.cancel(addressTimer);
        isConnected = true;
        key.interestOps(SelectionKey.OP_READ);
        if (daemon.tls == null) {
            Protocol.encodeHello(outgoing, token);
        } else {
            tls = new TlsSession(daemon.tls.newEngine(), loop);
        }
        planFlush();
    }

    private void onReady() {
        try {
            if (!isConnected) {
                if (channel.finishConnect()) {
                    onConnected();
                }
                return;
            }
            if (key.isReadable()) {
                read();
            }
            if (!hasEnded() && key.isWritable()) {
                flush();
            }
        } catch (IOException | RuntimeException failure) {
            fail(failure);
        }
    }

    private void fail(Exception failure) {
        if (!isConnected) {
            onConnectFailed(failure);
        } else if (failure instanceof AuthorizerdException known) {
            end(known);
        } else if (tls != null && !connection.isGreeted()) {
            sendAlert();
            end(daemon.tls.newError(failure, tls.isEstablished()));
        } else {
            end(new ConnectionLostException("the connection broke: " + failure.getMessage(), failure));
        }
    }

    private void read() throws IOException {
        for (int left = READS_PER_TURN; left > 0 && !hasEnded(); left--) {
            ByteBuffer data = loop.readBuffer.clear();
            int count = channel.read(data);
            if (count == 0) {
                return;
            }
            if (count < 0) {
                end(newClosedError());
                return;
            }
            data.flip();
            if (tls == null) {
                receive(data);
            } else {
                tls.receive(data);
                advanceTls();
                planFlush();
            }
            if (count < data.capacity()) {
                return;
            }
        }
    }

    private void advanceTls() throws IOException {
        tls.advance(outgoing, encrypted, this::receiveDecrypted, this::onTlsTask);
        if (tls.hasEnded()) {
            end(newClosedError());
        }
    }

    private void onTlsTask() {
        if (hasEnded()) {
            return;
        }
        try {
            advanceTls();
        } catch (IOException | RuntimeException failure) {
            fail(failure);
        }
        planFlush();
    }

    private void receiveDecrypted(ByteBuffer data) {
        if (data.hasRemaining()) {
            receive(data);
        } else {
            // Not earlier: the daemon's certificate has passed the checks only now.
            Protocol.encodeHello(outgoing, token);
        }
    }

    private void receive(ByteBuffer data) {
        if (hasEnded()) {
            return;
        }
        if (tls != null) {
            daemon.tls.hasAnswered = true;
        }
        connection.receive(data, this::settle);
        if (onGreeted != null && connection.isGreeted()) {
            Runnable greeted = onGreeted;
            endGreeting();
            greeted.run();
        }
        endIfRetired();
        offerRoom();
    }

    private void settle(Exchange exchange, Decisions decisions, AnswerException failure) {
        loop.cancel(exchange.watch);
        if (exchange.call != null) {
            owner.onOutcome(exchange.call, this, decisions, failure);
        }
    }

    private AuthorizerdException newClosedError() {
        if (tls != null) {
            return daemon.tls.newClosedError(tls.isEstablished());
        }
        return new ConnectionLostException(
                connection.isGreeted() ? "the daemon closed the connection" : CLOSED_EARLY);
    }

    /**
     * Send the call's frame, now or once fewer frames are in flight.
     *
     * <p>If the call's attempt is limited, the daemon counts as silent this long after the frame was
     * sent, and the connection ends then.
     */
    void ask(Call call) {
        call.link = this;
        if (connection.inFlight.size() >= framesInFlightMax) {
            waitingForRoom.add(call);
            return;
        }
        Exchange exchange = connection.ask(call.requestFor(daemon), call, outgoing);
        exchange.limit = call.limit;
        if (call.attemptNanos < Daemons.NEVER) {
            exchange.limit = loop.now() + call.attemptNanos;
            watch(exchange);
        }
        planFlush();
    }

    /** Forget a call; the answer to its frame is discarded. */
    void abandon(Call call) {
        if (!waitingForRoom.remove(call)) {
            for (Exchange exchange : connection.inFlight) {
                if (exchange.call == call) {
                    exchange.call = null; // its limit still counts: the daemon may be silent
                }
            }
        }
    }

    /** End the connection if the oldest frame has no answer after its time limit. */
    void endIfOverdue() {
        Exchange oldest = connection.inFlight.peek();
        if (oldest != null && oldest.limit <= loop.now()) {
            end(new ConnectionLostException("the daemon stopped answering"));
        }
    }

    /** End the connection if the daemon is silent when the limit of {@code exchange} ends. */
    private void watch(Exchange exchange) {
        // An older frame may have a later limit, because it waits for its offset.
        long time = Math.max(exchange.limit, connection.inFlight.peek().limit);
        exchange.watch = loop.at(time, () -> {
            endIfOverdue();
            if (!hasEnded()) {
                watch(exchange);
            }
        });
    }

    /** End the connection once its last frame is answered. */
    void retire() {
        isRetired = true;
        endIfRetired();
    }

    private void endIfRetired() {
        if (isRetired && connection.inFlight.isEmpty() && waitingForRoom.isEmpty()) {
            end(new ConnectionLostException("the connection was replaced"));
        }
    }

    private void offerRoom() {
        while (!hasEnded() && !waitingForRoom.isEmpty() && connection.inFlight.size() < framesInFlightMax) {
            ask(waitingForRoom.poll());
        }
    }

    private void planFlush() {
        if (!isFlushPlanned) {
            isFlushPlanned = true;
            loop.atEndOfTurn(() -> {
                isFlushPlanned = false;
                if (!hasEnded()) {
                    try {
                        flush();
                    } catch (IOException | RuntimeException failure) {
                        failWriting(failure);
                    }
                }
            });
        }
    }

    /** The daemon may have said why it does not read any more. */
    private void failWriting(Exception failure) {
        try {
            read();
        } catch (IOException | RuntimeException reason) {
            fail(reason);
        }
        if (!hasEnded()) {
            fail(failure);
        }
    }

    private void flush() throws IOException {
        if (tls != null) {
            advanceTls();
            if (hasEnded()) {
                return;
            }
        }
        boolean hasWritten = tls != null && encrypted.size() > 0;
        boolean isBlocked = !write(tls == null ? outgoing : encrypted);
        key.interestOps(isBlocked ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        if (hasWritten && !isBlocked && outgoing.size() > 0) {
            planFlush(); // there is room for more
        }
    }

    /** Return true if all has been written. */
    private boolean write(Msgpack.Bytes bytes) throws IOException {
        while (bytes.size() > 0) {
            int size = Math.min(WRITE_BYTES, bytes.size()); // a larger one needs as much memory again
            int count = channel.write(ByteBuffer.wrap(bytes.array, bytes.start, size));
            bytes.drop(count);
            if (count < size) {
                return false;
            }
        }
        return true;
    }

    private void sendAlert() {
        try {
            tls.encodeAlert(encrypted);
            write(encrypted);
        } catch (IOException | RuntimeException ignored) {
            // the daemon's log then lacks the reason
        }
    }

    private void endGreeting() {
        loop.cancel(greetingTimer);
        loop.cancel(addressTimer);
        onGreeted = null;
        onFailed = null;
    }

    /** Close the connection, and pass the error to every call that it has. */
    void end(AuthorizerdException reason) {
        if (hasEnded()) {
            return;
        }
        error = reason;
        closeChannel();
        Consumer<AuthorizerdException> failed = onFailed;
        endGreeting();
        if (failed != null) {
            failed.accept(reason);
        }
        for (Exchange exchange; (exchange = connection.inFlight.poll()) != null; ) {
            settle(exchange, reason);
        }
        for (Call call; (call = waitingForRoom.poll()) != null; ) {
            owner.onOutcome(call, this, null, reason);
        }
    }

    private void settle(Exchange exchange, AuthorizerdException reason) {
        loop.cancel(exchange.watch);
        if (exchange.call != null) {
            owner.onOutcome(exchange.call, this, null, reason);
        }
    }

    private void closeChannel() {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException ignored) {
            // it is closed
        }
    }
}
