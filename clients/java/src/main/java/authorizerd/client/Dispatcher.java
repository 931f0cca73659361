package authorizerd.client;

import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Passes each call to a connection, makes connections, and asks again.
 *
 * <p><b>Invariant:</b> new questions use one connection. A connection that was replaced by one to an
 * earlier address ends when its last frame is answered. Every call ends exactly once, by its time
 * limit at the latest; only the loop's thread touches connections.
 */
final class Dispatcher implements Link.Owner {
    /** What limits the connections and calls of a client. */
    record Limits(long connectNanos, long failoverNanos, int frameBytesMax, int framesInFlightMax,
            int callsMax, long bytesMax) {}

    private static final String CLOSED = "the client is closed";
    private static final long JOIN_MILLISECONDS = 1000;

    private final Loop loop;
    private final Daemons daemons;
    private final String token;
    private final Limits limits;

    /** All calls that have not ended. The caller that removes a call completes it. */
    private final Set<Call> calls = ConcurrentHashMap.newKeySet();

    private final AtomicInteger callsOpen = new AtomicInteger();
    private final AtomicLong bytesOpen = new AtomicLong();
    private final AtomicLong offset = new AtomicLong(-1);
    private volatile AuthorizerdException closed;

    private final Set<Call> waiting = new LinkedHashSet<>();
    private final Set<Link> attempts = new HashSet<>();
    private Link link;
    private Link retired;
    private boolean isConnecting;

    Dispatcher(Daemons daemons, String token, Limits limits, LongSupplier clock) {
        this.daemons = daemons;
        this.token = token;
        this.limits = limits;
        loop = new Loop(clock, this::onLoopEnd);
        loop.start();
    }

    Loop loop() {
        return loop;
    }

    /** Return the newest log offset that a daemon has named. */
    long offset() {
        return offset.get();
    }

    /** Start a call. Any thread may do so; {@code call.result} always completes. */
    void submit(Call call) {
        int count = callsOpen.incrementAndGet();
        long bytes = bytesOpen.addAndGet(call.bytes());
        if (count > limits.callsMax || bytes > limits.bytesMax && count > 1) {
            release(call);
            call.result.completeExceptionally(new TooManyCallsException("with this call, the client would"
                    + " hold " + count + " calls with " + bytes + " bytes, but callsMax is " + limits.callsMax
                    + " and bytesMax " + limits.bytesMax + ": wait for earlier calls"));
            return;
        }
        calls.add(call);
        if (closed != null) {
            finish(call, null, closed);
        } else {
            loop.execute(() -> start(call));
        }
    }

    private void release(Call call) {
        callsOpen.decrementAndGet();
        bytesOpen.addAndGet(-call.bytes());
    }

    /** Forget a call whose caller has gone. */
    void drop(Call call) {
        loop.execute(() -> {
            if (calls.contains(call)) {
                detach(call);
                finish(call, null, new CallInterruptedException("the call was cancelled"));
            }
        });
    }

    /** End everything for good. Waits briefly until the thread has ended. */
    void close() {
        if (closed == null) {
            closed = new ClosedException(CLOSED);
        }
        calls.forEach(call -> finish(call, null, closed));
        loop.execute(() -> {
            endLinks();
            loop.end();
        });
        if (!loop.isCurrentThread()) {
            loop.join(JOIN_MILLISECONDS);
        }
    }

    private void onLoopEnd(Throwable failure) {
        if (closed == null) {
            closed = new ClosedException("the client's thread has ended: " + failure, failure);
        }
        calls.forEach(call -> finish(call, null, closed)); // first: what failed may fail again
        endLinks();
    }

    private void endLinks() {
        List.copyOf(attempts).forEach(each -> each.end(closed));
        for (Link each : new Link[] {link, retired}) {
            if (each != null) {
                each.end(closed);
            }
        }
    }

    /** Complete a call, unless it has been. Any thread may do so. */
    private void finish(Call call, Decisions decisions, AuthorizerdException error) {
        if (!calls.remove(call)) {
            return;
        }
        release(call);
        if (loop.isCurrentThread()) {
            loop.cancel(call.timer);
        }
        if (error != null) {
            call.result.completeExceptionally(error);
        } else {
            call.result.complete(decisions);
        }
    }

    private void start(Call call) {
        if (!calls.contains(call)) {
            return;
        }
        call.attemptsLeft = daemons.count();
        call.timer = loop.at(call.limit, () -> expire(call));
        proceed(call);
    }

    /** Pass a call to the connection. Connect first if necessary. */
    private void proceed(Call call) {
        if (!calls.contains(call)) {
            return;
        }
        startReturn();
        if (isUsable()) {
            ask(call);
            return;
        }
        if (daemons.nextAttempt() > call.limit || loop.now() >= call.limit) {
            finish(call, null, newNotConnectedError());
            return;
        }
        waiting.add(call);
        if (!isConnecting) {
            isConnecting = true;
            loop.at(Math.max(loop.now(), daemons.nextAttempt()),
                    () -> connectToNext(call.limit, daemons.count(), null));
        }
    }

    private boolean isUsable() {
        return link != null && !link.hasEnded();
    }

    private void ask(Call call) {
        offset.accumulateAndGet(link.offset(), Math::max);
        if (call.request == null) {
            finish(call, null, null);
            return;
        }
        long now = loop.now();
        call.attemptNanos =
                daemons.limitAttempt(link.daemon, now, call.limit - now, call.attemptsLeft == 0);
        link.ask(call);
    }

    /** Ask again, elsewhere if possible, or end the call. */
    @Override
    public void onOutcome(Call call, Link from, Decisions decisions, AuthorizerdException error) {
        call.link = null;
        if (!calls.contains(call)) {
            return;
        }
        if (daemons.shouldRepeat(from.daemon, decisions, error, loop.now())) {
            setAside(from, decisions, error);
            if (call.attemptsLeft > 0) {
                call.attemptsLeft--;
                proceed(call);
                return;
            }
        }
        if (error == null) {
            from.daemon.succeed();
            call.offsets.put(from.daemon, decisions.offset());
            offset.accumulateAndGet(decisions.offset(), Math::max);
        }
        finish(call, decisions, error);
    }

    /** End a call whose time limit has been reached. */
    private void expire(Call call) {
        if (!calls.contains(call)) {
            return;
        }
        Link asked = call.link;
        detach(call);
        if (asked == null) {
            finish(call, null, newNotConnectedError());
            return;
        }
        AuthorizerdException error = new TimedOutException("the daemon did not answer in time");
        asked.endIfOverdue();
        if (asked.hasEnded()) {
            setAside(asked, null, error);
        }
        finish(call, null, error);
    }

    /** Remove a call from where it waits. */
    private void detach(Call call) {
        waiting.remove(call);
        if (call.link != null) {
            // The frame's own time limit still counts: endIfOverdue sees it.
            call.link.abandon(call);
            call.link = null;
        }
    }

    /** Drop a connection whose daemon failed. Only the first of its callers gets to do so. */
    private void setAside(Link failed, Decisions decisions, AuthorizerdException error) {
        if (link != failed) {
            return;
        }
        link = null;
        daemons.setAside(failed.daemon, decisions, error, loop.now());
        failed.end(new ConnectionLostException("the daemon failed; the question is asked elsewhere"));
    }

    private AuthorizerdException newNotConnectedError() {
        return new ConnectionLostException(daemons.explain());
    }

    /**
     * Try each daemon at most once.
     *
     * @param refusal what the first peer that answered has said; null if none has
     */
    private void connectToNext(long limit, int left, AuthorizerdException refusal) {
        long now = loop.now();
        Daemon daemon = left > 0 && closed == null ? daemons.choose(now) : null;
        if (daemon == null) {
            letWaitingGoOn(refusal);
            return;
        }
        long nanos = daemons.limitAttempt(daemon, now, limit - now, false);
        connectTo(daemon, nanos, found -> {
            link = found;
            letWaitingGoOn(null);
        }, error -> {
            // If the peer answered, the caller must know its reason.
            boolean isFirst = refusal == null && !(error instanceof ConnectionLostException);
            connectToNext(limit, left - 1, isFirst ? error : refusal);
        });
    }

    /** Let the calls go on that wait for a connection, or end them with the reason why there is none. */
    private void letWaitingGoOn(AuthorizerdException refusal) {
        isConnecting = false;
        List<Call> released = List.copyOf(waiting);
        waiting.clear();
        for (Call call : released) {
            if (refusal != null) {
                finish(call, null, refusal);
            } else {
                proceed(call);
            }
        }
    }

    private void connectTo(Daemon daemon, long nanos, Consumer<Link> onGreeted,
            Consumer<AuthorizerdException> onFailed) {
        daemon.error = "the daemon did not answer in time";
        Link made = new Link(daemon, loop, this, limits.frameBytesMax, limits.framesInFlightMax);
        attempts.add(made);
        made.greet(token, Math.min(limits.connectNanos, nanos), () -> {
            attempts.remove(made);
            daemons.recordConnection(daemon, loop.now());
            onGreeted.accept(made);
        }, error -> {
            attempts.remove(made);
            daemon.fail(loop.now());
            daemon.error = error.getMessage();
            onFailed.accept(error);
        });
    }

    /** Try to return to an earlier daemon if it is time. Calls use the connection meanwhile. */
    private void startReturn() {
        if (!isUsable()) {
            return;
        }
        Link current = link;
        Daemon earlier = daemons.chooseReturn(current.daemon, loop.now());
        if (earlier != null) {
            connectTo(earlier, limits.failoverNanos, found -> replace(current, found), error -> {});
        }
    }

    private void replace(Link current, Link found) {
        if (link != current) {
            found.retire();
        } else if (found.offset() < 0 && current.offset() >= 0) {
            found.retire();
            AuthorizerdException reason = Protocol.newFrameError(Protocol.NOT_READY_ERROR);
            daemons.setAside(found.daemon, null, reason, loop.now());
        } else {
            if (retired != null) {
                retired.end(new ConnectionLostException("the connection was replaced twice"));
            }
            retired = current;
            link = found;
            current.retire();
        }
    }

    /** Return how long a duration is; a longer one than the clock can hold is {@link Daemons#NEVER}. */
    static long toNanos(Duration duration) {
        return duration.compareTo(Duration.ofNanos(Daemons.NEVER)) >= 0 ? Daemons.NEVER : duration.toNanos();
    }
}
