package authorizerd.client;

import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** A call that waits for a connection, for room on it, or for its answer. */
final class Call {
    /** Null for a call that only connects. */
    final Protocol.Request request;

    /** When the call must end, by the loop's clock. */
    final long limit;

    /** By which offset each daemon has decided for the same caller; the answer is added. */
    final Map<Daemon, Long> offsets;

    /** Completes with the decisions; with null if the call only connects. */
    final CompletableFuture<Decisions> result = new CompletableFuture<>();

    int attemptsLeft;

    /** The connection that has the call; null while it waits for one. */
    Link link;

    /** How long the daemon may take, from the time at which the frame is sent. */
    long attemptNanos;

    Loop.Timer timer;

    Call(Protocol.Request request, long limit, Map<Daemon, Long> offsets) {
        this.request = request;
        this.limit = limit;
        this.offsets = offsets;
    }

    /** Return how much memory the call holds, about. */
    int bytes() {
        return request == null ? 0 : request.encoded().length;
    }

    /** Return the request with the offset that the daemon's own earlier answers imply. */
    Protocol.Request requestFor(Daemon daemon) {
        return request.withMinOffset(offsets.getOrDefault(daemon, -1L));
    }
}
