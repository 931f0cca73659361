package authorizerd.client;

/** A frame that was sent, and that the daemon has not answered yet. */
final class Exchange {
    final long correlationId;
    final int count;

    /** Whom the answer is for; null once nobody waits for it. */
    Call call;

    /** When the daemon counts as silent. */
    long limit;

    /** Looks at {@code limit}; null if only the call's own time limit applies. */
    Loop.Timer watch;

    Exchange(long correlationId, int count, Call call) {
        this.correlationId = correlationId;
        this.count = count;
        this.call = call;
    }
}
