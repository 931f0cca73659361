package authorizerd.client;

import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The daemons of one client, in the order in which the client prefers them.
 *
 * <p>A daemon that fails is set aside: the client does not try it before its back-off has ended. The
 * only daemon of a client is never set aside because of an answer. Nothing here has a clock or a
 * socket; times are nanoseconds of one clock.
 */
final class Daemons {
    static final long NEVER = Long.MAX_VALUE / 4;

    /** A shorter silence does not count against a daemon, however little time the caller has left. */
    private static final long ATTEMPT_NANOS_MIN = 50_000_000;

    /** A client tries an earlier address again after this time, or up to twice as long. */
    private static final long RETURN_NANOS = 10_000_000_000L;

    private final List<Daemon> all;
    private final long failoverNanos;
    private long returnTime = Long.MIN_VALUE;

    Daemons(List<String> addresses, Tls tls, long failoverNanos) {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException("expected at least one address, found none");
        }
        all = addresses.stream().map(text -> new Daemon(text, tls)).toList();
        this.failoverNanos = failoverNanos;
    }

    int count() {
        return all.size();
    }

    /** Return the first time at which a daemon may be tried. */
    long nextAttempt() {
        return all.stream().mapToLong(each -> each.nextAttempt).min().orElseThrow();
    }

    /**
     * Return the daemon to connect to, or null if all are set aside.
     *
     * <p>It is the first that has not failed. If all have failed, it is the one whose back-off ended
     * first: otherwise, two silent daemons at the head of the list would hide all others.
     */
    Daemon choose(long now) {
        Daemon best = null;
        for (Daemon each : all) {
            if (each.isDue(now) && (best == null || rank(each) < rank(best))) {
                best = each;
            }
        }
        return best;
    }

    private static long rank(Daemon daemon) {
        return daemon.failures == 0 ? Long.MIN_VALUE : daemon.nextAttempt;
    }

    /** Return an earlier daemon than {@code current} if it is time to try one again, or null. */
    Daemon chooseReturn(Daemon current, long now) {
        if (current == all.get(0) || now < returnTime) {
            return null;
        }
        planReturn(now);
        return all.subList(0, all.indexOf(current)).stream()
                .filter(each -> each.isDue(now)).findFirst().orElse(null);
    }

    /** Record that the client has connected to {@code daemon} and will ask it. */
    void recordConnection(Daemon daemon, long now) {
        daemon.error = null;
        // With others, only an answer ends the back-off: a daemon that is not ready, or dies at each
        // question, would otherwise be tried with each question.
        if (count() == 1) {
            daemon.succeed();
        }
        planReturn(now);
    }

    /**
     * Return how long {@code daemon} may take before another one is asked.
     *
     * <p>{@link #NEVER} if no other daemon could be asked, or no further attempt will follow ({@code
     * isLast}): then only the caller's time limit applies.
     */
    long limitAttempt(Daemon daemon, long now, long remaining, boolean isLast) {
        int others = countOthers(daemon, now);
        if (isLast || others == 0) {
            return NEVER;
        }
        return Math.max(ATTEMPT_NANOS_MIN, Math.min(failoverNanos, remaining / (others + 1)));
    }

    /** Return true if the question should be asked again, elsewhere if possible. */
    boolean shouldRepeat(Daemon daemon, Decisions decisions, AuthorizerdException error, long now) {
        return error instanceof ConnectionLostException
                || isNotReady(decisions, error) && countOthers(daemon, now) > 0;
    }

    /** Record that {@code daemon} has failed, so that others are asked for a while. */
    void setAside(Daemon daemon, Decisions decisions, AuthorizerdException error, long now) {
        daemon.error = isNotReady(decisions, error) ? "the ACLs are not loaded" : error.getMessage();
        if (count() > 1) {
            daemon.fail(now);
        }
    }

    /** Return why no daemon is connected, with the addresses if there are several. */
    String explain() {
        StringBuilder reasons = new StringBuilder("not connected: ");
        for (Daemon each : all) {
            reasons.append(each == all.get(0) ? "" : "; ");
            reasons.append(count() == 1 ? "" : each.text + ": ");
            reasons.append(each.error == null ? "no attempt to connect was made" : each.error);
        }
        return reasons.toString();
    }

    /** Return true if a daemon answered that its ACLs are not loaded. */
    private static boolean isNotReady(Decisions decisions, AuthorizerdException error) {
        return error == null ? decisions.lacksAcls() : error instanceof NotReadyException;
    }

    private int countOthers(Daemon daemon, long now) {
        int count = 0;
        for (Daemon each : all) {
            count += each != daemon && each.isDue(now) ? 1 : 0;
        }
        return count;
    }

    private void planReturn(long now) {
        returnTime = now + RETURN_NANOS + ThreadLocalRandom.current().nextLong(RETURN_NANOS);
    }
}
