package authorizerd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.LongSupplier;

/**
 * A client with one connection at a time and one thread. Any number of threads may share it.
 *
 * <p>The first call connects, and so does the first call after a failure. If the connection breaks
 * during a question, the client asks again. If there is no decision, a call throws an {@link
 * AuthorizerdException}, and the future of a call with {@code Async} in its name completes with one:
 * deny then.
 *
 * <p>With several addresses, the client asks the first daemon in the list that works. If a daemon
 * cannot be reached, is not ready, or is silent for {@code failoverTimeout}, the client asks the next
 * one, and avoids the failed one for up to 5 seconds, longer with each failure. Every 10 to 20
 * seconds, it tries to return to an earlier address; no question waits for that.
 *
 * <p>Every call ends by its time limit, which includes looking up the host, connecting, the TLS
 * handshake and writing. A blocking call that is interrupted throws a {@link
 * CallInterruptedException}.
 *
 * <p>The thread does not keep the process running. {@link #close} ends it.
 */
public final class Client implements AutoCloseable {
    /** A blocking call looks at the clock itself if the client's thread is this late. */
    private static final long GRACE_NANOS = 100_000_000;

    private final Dispatcher dispatcher;
    private final Executor executor;
    private final long timeoutNanos;
    private final int frameBytesMax;
    private final AtomicLong requiredOffset = new AtomicLong(-1);

    private Client(Builder options) {
        executor = options.executor;
        timeoutNanos = Dispatcher.toNanos(options.timeout);
        frameBytesMax = options.frameBytesMax;
        long failoverNanos = Dispatcher.toNanos(options.failoverTimeout);
        Daemons daemons = new Daemons(options.addresses, options.tls, failoverNanos);
        Protocol.encodeHello(new Msgpack.Bytes(256), options.token); // an invalid token throws here
        Dispatcher.Limits limits = new Dispatcher.Limits(Dispatcher.toNanos(options.connectTimeout),
                failoverNanos, frameBytesMax, options.framesInFlightMax, options.callsMax, options.bytesMax);
        dispatcher = new Dispatcher(daemons, options.token, limits, options.clock);
    }

    /**
     * Begin to make a client.
     *
     * @param addresses of daemons with the same ACLs, in order of preference: {@code
     *     tls://HOST:PORT}, {@code tcp://HOST:PORT}, {@code HOST:PORT} or {@code unix:PATH}
     * @return a builder with the default options
     */
    public static Builder builder(String... addresses) {
        return builder(List.of(addresses));
    }

    /**
     * Begin to make a client.
     *
     * @param addresses as for {@link #builder(String...)}
     * @return a builder with the default options
     */
    public static Builder builder(List<String> addresses) {
        return new Builder(addresses);
    }

    /**
     * Return the newest log offset that a daemon has named.
     *
     * @return -1 before the first
     */
    public long offset() {
        return dispatcher.offset();
    }

    /**
     * Connect now rather than with the first question, to find a wrong address or token early.
     *
     * @throws AuthorizerdException if no daemon accepts the client within the time limit
     */
    public void connect() {
        await(submit(null, CallOptions.NONE, Map.of()), timeoutNanos);
    }

    /**
     * Connect now, without blocking.
     *
     * @return a future that completes with null, or with an {@link AuthorizerdException}
     */
    public CompletableFuture<Void> connectAsync() {
        return expose(submit(null, CallOptions.NONE, Map.of()), nothing -> null);
    }

    /**
     * Ask one question.
     *
     * @param question what to ask
     * @return true if the daemon allows the question, false if it denies it
     * @throws AuthorizerdException if there is no decision: deny
     */
    public boolean decide(Question question) {
        return decide(question, CallOptions.NONE);
    }

    /**
     * Ask one question.
     *
     * @param question what to ask
     * @param options for this call
     * @return true if the daemon allows the question, false if it denies it
     * @throws AuthorizerdException if there is no decision: deny
     */
    public boolean decide(Question question, CallOptions options) {
        return decideMany(List.of(question), options).decide(0, question);
    }

    /**
     * Ask one question, without blocking.
     *
     * @param question what to ask
     * @return a future of true or false, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<Boolean> decideAsync(Question question) {
        return decideAsync(question, CallOptions.NONE);
    }

    /**
     * Ask one question, without blocking.
     *
     * @param question what to ask
     * @param options for this call
     * @return a future of true or false, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<Boolean> decideAsync(Question question, CallOptions options) {
        return expose(ask(List.of(question), options), decisions -> decisions.decide(0, question));
    }

    /**
     * Ask several questions in one frame. One state of the ACLs decides them all.
     *
     * @param questions any number that fits into a frame
     * @return one decision for each question, in order
     * @throws AuthorizerdException if there are no decisions: deny
     */
    public Decisions decideMany(List<Question> questions) {
        return decideMany(questions, CallOptions.NONE);
    }

    /**
     * Ask several questions in one frame. One state of the ACLs decides them all.
     *
     * @param questions any number that fits into a frame
     * @param options for this call
     * @return one decision for each question, in order
     * @throws AuthorizerdException if there are no decisions: deny
     */
    public Decisions decideMany(List<Question> questions, CallOptions options) {
        return await(ask(questions, options), nanosOf(options));
    }

    /**
     * Ask several questions in one frame, without blocking.
     *
     * @param questions any number that fits into a frame
     * @return a future of one decision for each question, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<Decisions> decideManyAsync(List<Question> questions) {
        return decideManyAsync(questions, CallOptions.NONE);
    }

    /**
     * Ask several questions in one frame, without blocking.
     *
     * @param questions any number that fits into a frame
     * @param options for this call
     * @return a future of one decision for each question, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<Decisions> decideManyAsync(List<Question> questions, CallOptions options) {
        return expose(ask(questions, options), Function.identity());
    }

    /**
     * Return the allowed ones among any number of resource names. They travel in as many frames as
     * necessary, so different states of the ACLs may decide them.
     *
     * @param about what to ask about each name; its own {@code resourceName} is ignored
     * @param names of resources
     * @return those of {@code names} that are allowed, in their order
     * @throws AuthorizerdException if any of them has no decision
     */
    public List<String> filterAllowed(Question about, List<String> names) {
        return filterAllowed(about, names, CallOptions.NONE);
    }

    /**
     * Return the allowed ones among any number of resource names.
     *
     * @param about what to ask about each name; its own {@code resourceName} is ignored
     * @param names of resources
     * @param options for this call; the time limit includes all frames
     * @return those of {@code names} that are allowed, in their order
     * @throws AuthorizerdException if any of them has no decision
     */
    public List<String> filterAllowed(Question about, List<String> names, CallOptions options) {
        return await(new Filter(about, names, options).start(), nanosOf(options));
    }

    /**
     * Find the allowed ones among any number of resource names, without blocking.
     *
     * @param about what to ask about each name; its own {@code resourceName} is ignored
     * @param names of resources
     * @return a future of the names that are allowed, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<List<String>> filterAllowedAsync(Question about, List<String> names) {
        return filterAllowedAsync(about, names, CallOptions.NONE);
    }

    /**
     * Find the allowed ones among any number of resource names, without blocking.
     *
     * @param about what to ask about each name; its own {@code resourceName} is ignored
     * @param names of resources
     * @param options for this call; the time limit includes all frames
     * @return a future of the names that are allowed, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<List<String>> filterAllowedAsync(
            Question about, List<String> names, CallOptions options) {
        return expose(new Filter(about, names, options).start(), Function.identity());
    }

    /**
     * Return the log offset of the ACLs by which the daemon decides now. A daemon acknowledges a
     * change of ACLs only after it decides by it: the offset of the daemon that acknowledged your
     * change includes the change.
     *
     * @return an offset of at least 0
     * @throws AuthorizerdException if no daemon with ACLs answers within the time limit
     */
    public long readOffset() {
        return toOffset(decideMany(List.of()));
    }

    /**
     * Read the log offset of the ACLs by which the daemon decides now, without blocking.
     *
     * @return a future of an offset of at least 0, or of an {@link AuthorizerdException}
     */
    public CompletableFuture<Long> readOffsetAsync() {
        return expose(ask(List.of(), CallOptions.NONE), Client::toOffset);
    }

    private static long toOffset(Decisions decisions) {
        if (decisions.offset() < 0) {
            throw Protocol.newFrameError(Protocol.NOT_READY_ERROR);
        }
        return decisions.offset();
    }

    /**
     * From now on, accept only answers by ACLs that include this log offset. Use it to read your own
     * writes, with the result of {@link #readOffset}. The daemons of the client must follow the same
     * quorum: offsets of daemons with another source are their own.
     *
     * @param offset a log offset; a smaller one than before changes nothing
     */
    public void requireOffset(long offset) {
        requiredOffset.accumulateAndGet(offset, Math::max);
    }

    /**
     * Close the connection for good, and end the thread. Pending calls throw a {@link
     * ClosedException}, or complete with one, and so do later calls.
     */
    @Override
    public void close() {
        dispatcher.close();
    }

    private CompletableFuture<Decisions> ask(List<Question> questions, CallOptions options) {
        return submit(Objects.requireNonNull(questions, "questions"), options, new HashMap<>());
    }

    /** Start a call; without questions ({@code null}), it only connects. */
    private CompletableFuture<Decisions> submit(
            List<Question> questions, CallOptions options, Map<Daemon, Long> offsets) {
        long limit = dispatcher.loop().now() + nanosOf(options);
        return submit(questions, options, limit, offsets);
    }

    private CompletableFuture<Decisions> submit(
            List<Question> questions, CallOptions options, long limit, Map<Daemon, Long> offsets) {
        try {
            long minOffset = Math.max(options.minOffset(), requiredOffset.get());
            Protocol.Request request =
                    questions == null ? null : Protocol.encodeRequest(questions, minOffset, frameBytesMax);
            Call call = new Call(request, limit, offsets);
            dispatcher.submit(call);
            call.result.whenComplete((decisions, error) -> {
                if (call.result.isCancelled()) {
                    dispatcher.drop(call);
                }
            });
            return call.result;
        } catch (InvalidQuestionException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    private long nanosOf(CallOptions options) {
        return options.timeout() == null ? timeoutNanos : Dispatcher.toNanos(options.timeout());
    }

    /** Wait for an internal future, and throw its error with the stack of this thread. */
    private <T> T await(CompletableFuture<T> asked, long nanos) {
        if (dispatcher.loop().isCurrentThread()) {
            asked.cancel(false);
            throw new IllegalStateException("a blocking call in the client's own thread would never end: use"
                    + " the asynchronous methods, or another executor");
        }
        try {
            return asked.get(nanos + GRACE_NANOS, TimeUnit.NANOSECONDS);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof AuthorizerdException known) {
                throw known.copy();
            }
            throw new IllegalStateException(error.getCause());
        } catch (TimeoutException error) {
            asked.cancel(false);
            throw new TimedOutException("the client's thread was busy", error);
        } catch (InterruptedException error) {
            asked.cancel(false);
            Thread.currentThread().interrupt();
            throw new CallInterruptedException("the calling thread was interrupted", error);
        }
    }

    /** Return a future that completes in the executor, so that it never delays the client's thread. */
    private <S, T> CompletableFuture<T> expose(CompletableFuture<S> asked, Function<S, T> read) {
        CompletableFuture<T> exposed = new CompletableFuture<>();
        asked.whenComplete((found, error) -> {
            Runnable complete = () -> complete(exposed, found, error, read);
            try {
                executor.execute(complete);
            } catch (RuntimeException | Error rejected) { // such as a thread that cannot be started
                complete.run();
            }
        });
        exposed.whenComplete((value, error) -> {
            if (exposed.isCancelled()) {
                asked.cancel(false);
            }
        });
        return exposed;
    }

    private static <S, T> void complete(
            CompletableFuture<T> exposed, S found, Throwable error, Function<S, T> read) {
        if (error != null) {
            exposed.completeExceptionally(error);
            return;
        }
        try {
            exposed.complete(read.apply(found));
        } catch (AuthorizerdException noDecision) {
            exposed.completeExceptionally(noDecision);
        }
    }

    /** Asks about many names, one frame after the other. */
    private final class Filter {
        private final CallOptions options;
        private final long limit;
        private final Iterator<List<Question>> frames;
        private final Map<Daemon, Long> offsets = new HashMap<>();
        private final List<String> allowed = new ArrayList<>();
        private final CompletableFuture<List<String>> result = new CompletableFuture<>();

        Filter(Question about, List<String> names, CallOptions options) {
            this.options = options;
            limit = dispatcher.loop().now() + nanosOf(options);
            frames = Protocol.planFrames(about, List.copyOf(names).iterator(), frameBytesMax);
        }

        CompletableFuture<List<String>> start() {
            askNext();
            return result;
        }

        private void askNext() {
            try {
                if (result.isDone()) {
                    return; // cancelled
                }
                if (!frames.hasNext()) {
                    result.complete(List.copyOf(allowed));
                    return;
                }
                List<Question> questions = frames.next();
                submit(questions, options, limit, offsets).whenComplete((decisions, error) -> {
                    if (error != null) {
                        result.completeExceptionally(error);
                    } else {
                        read(questions, decisions);
                    }
                });
            } catch (RuntimeException error) {
                result.completeExceptionally(error);
            }
        }

        private void read(List<Question> questions, Decisions decisions) {
            try {
                for (int index = 0; index < questions.size(); index++) {
                    if (decisions.decide(index, questions.get(index))) {
                        allowed.add(questions.get(index).resourceName());
                    }
                }
            } catch (AuthorizerdException error) {
                result.completeExceptionally(error);
                return;
            }
            askNext();
        }
    }

    /** The options of a client. */
    public static final class Builder {
        /** The nanoseconds of the client's clock. */
        LongSupplier clock = System::nanoTime;

        private final List<String> addresses;
        private String token;
        private Tls tls;
        private Duration timeout = Duration.ofSeconds(5);
        private Duration connectTimeout = Duration.ofSeconds(5);
        private Duration failoverTimeout = Duration.ofSeconds(1);
        private int frameBytesMax = Protocol.FRAME_BYTES_MAX;
        private int framesInFlightMax = 256;
        private int callsMax = 100_000;
        private long bytesMax = 64L << 20;

        // CompletableFuture's own executor would start a thread for each answer on two processors.
        private Executor executor = ForkJoinPool.getCommonPoolParallelism() > 0
                ? ForkJoinPool.commonPool() : new CompletableFuture<Void>().defaultExecutor();

        private Builder(List<String> addresses) {
            this.addresses = List.copyOf(addresses);
        }

        /**
         * Set the token, if the daemon requires tokens and the client has no certificate.
         *
         * @param token {@code ID.SECRET}; null for none, the default
         * @return this builder
         */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /**
         * Set the CAs and the certificate for addresses with {@code tls://}.
         *
         * @param tls null for {@link Tls#systemDefault}, the default
         * @return this builder
         */
        public Builder tls(Tls tls) {
            this.tls = tls;
            return this;
        }

        /**
         * Set the time limit of a call, including connecting.
         *
         * @param timeout 5 seconds by default
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = requirePositive(timeout, "timeout");
            return this;
        }

        /**
         * Set the time limit of one attempt to connect, with TLS and hello.
         *
         * @param timeout 5 seconds by default
         * @return this builder
         */
        public Builder connectTimeout(Duration timeout) {
            connectTimeout = requirePositive(timeout, "connectTimeout");
            return this;
        }

        /**
         * Set how long one daemon may take, to connect or to answer, while another one could be asked.
         * If the time that a call has left, divided among these daemons, is shorter, then that applies.
         *
         * @param timeout 1 second by default
         * @return this builder
         */
        public Builder failoverTimeout(Duration timeout) {
            failoverTimeout = requirePositive(timeout, "failoverTimeout");
            return this;
        }

        /**
         * Set the maximum size of a frame.
         *
         * @param bytes the daemon's {@code authorizerd.stream.frame.max.bytes}; 131072 by default
         * @return this builder
         */
        public Builder frameBytesMax(int bytes) {
            frameBytesMax = requirePositive(bytes, "frameBytesMax");
            return this;
        }

        /**
         * Set how many frames may wait for answers; further calls wait.
         *
         * @param frames 256 by default
         * @return this builder
         */
        public Builder framesInFlightMax(int frames) {
            framesInFlightMax = requirePositive(frames, "framesInFlightMax");
            return this;
        }

        /**
         * Set how many calls the client holds. A further call fails with a {@link
         * TooManyCallsException}.
         *
         * @param calls 100,000 by default
         * @return this builder
         */
        public Builder callsMax(int calls) {
            callsMax = requirePositive(calls, "callsMax");
            return this;
        }

        /**
         * Set how many bytes of questions the client holds. A further call fails with a {@link
         * TooManyCallsException}.
         *
         * @param bytes 67,108,864 by default
         * @return this builder
         */
        public Builder bytesMax(long bytes) {
            if (bytes <= 0) {
                throw new IllegalArgumentException("expected a positive bytesMax, found " + bytes);
            }
            bytesMax = bytes;
            return this;
        }

        /**
         * Set what completes the futures.
         *
         * @param executor {@link ForkJoinPool#commonPool} by default. With {@code
         *     Runnable::run}, the client's thread completes them: faster, but what depends on a future
         *     must then not block
         * @return this builder
         */
        public Builder executor(Executor executor) {
            this.executor = Objects.requireNonNull(executor, "executor");
            return this;
        }

        /**
         * Make the client, and start its thread. It connects with the first call.
         *
         * @return a client, to be closed
         * @throws IllegalArgumentException if there is no address or an invalid one, if {@code tls} is
         *     given for an address without TLS, or if the token is no text
         */
        public Client build() {
            return new Client(this);
        }

        private static Duration requirePositive(Duration duration, String name) {
            if (duration.isNegative() || duration.isZero()) {
                throw new IllegalArgumentException("expected a positive " + name + ", found " + duration);
            }
            return duration;
        }

        private static int requirePositive(int value, String name) {
            if (value <= 0) {
                throw new IllegalArgumentException("expected a positive " + name + ", found " + value);
            }
            return value;
        }
    }
}
