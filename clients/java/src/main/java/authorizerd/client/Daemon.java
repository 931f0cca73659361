package authorizerd.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One address, and when it may be tried. Times are nanoseconds of the loop's clock. */
final class Daemon {
    private static final long DELAY_NANOS_MIN = 50_000_000;
    private static final long DELAY_NANOS_MAX = 5_000_000_000L;
    private static final Pattern ADDRESS =
            Pattern.compile("(tcp://|tls://)?(?:\\[([^\\]/]+)\\]|([^\\[\\]/:]+)):(\\d{1,5})");
    private static final Pattern IP_ADDRESS = Pattern.compile("\\d+\\.\\d+\\.\\d+\\.\\d+|.*:.*");
    private static final String UNIX = "unix:";

    final String text;

    /** The path of a Unix socket; null for TCP. */
    final String path;

    final String host;
    final int port;

    /** Null without TLS. */
    final TlsEndpoint tls;

    /** Why the newest attempt to connect failed; null after one that succeeded. */
    String error = "no attempt to connect was made";

    /** Failures since the last success. */
    int failures;

    long nextAttempt = Long.MIN_VALUE;

    /** A look-up of the host that has not ended; a slow one is not started twice. */
    private CompletableFuture<InetAddress[]> lookup;

    Daemon(String text, Tls tls) {
        this.text = text;
        Matcher parts = ADDRESS.matcher(text);
        boolean isTls = false;
        if (text.startsWith(UNIX) && text.length() > UNIX.length()) {
            path = text.substring(UNIX.length());
            host = null;
            port = 0;
        } else if (parts.matches() && Integer.parseInt(parts.group(4)) < 0x10000) {
            path = null;
            host = parts.group(2) != null ? parts.group(2) : parts.group(3);
            port = Integer.parseInt(parts.group(4));
            isTls = "tls://".equals(parts.group(1));
        } else {
            throw new IllegalArgumentException("invalid address '" + text
                    + "': expected tls://HOST:PORT, tcp://HOST:PORT or unix:PATH");
        }
        if (tls != null && !isTls) {
            throw new IllegalArgumentException(
                    "tls is given, but the address is without TLS: use tls://HOST:PORT");
        }
        this.tls = isTls ? new TlsEndpoint(host, port, tls == null ? Tls.systemDefault() : tls) : null;
    }

    boolean isDue(long now) {
        return nextAttempt <= now;
    }

    /**
     * Set the daemon aside. Half of the delay is random, so that the clients of a daemon that
     * restarts do not all return at the same moment.
     */
    void fail(long now) {
        long delay = Math.min(DELAY_NANOS_MAX, DELAY_NANOS_MIN << Math.min(failures, 30));
        failures++;
        nextAttempt = now + delay / 2 + ThreadLocalRandom.current().nextLong(delay / 2 + 1);
    }

    void succeed() {
        failures = 0;
        nextAttempt = Long.MIN_VALUE;
    }

    /** Look up the host's addresses; a name is looked up in a thread, because this may block. */
    CompletableFuture<InetAddress[]> lookUp() {
        if (IP_ADDRESS.matcher(host).matches()) {
            try {
                return CompletableFuture.completedFuture(InetAddress.getAllByName(host));
            } catch (UnknownHostException failure) {
                return CompletableFuture.failedFuture(failure);
            }
        }
        if (lookup == null || lookup.isDone()) {
            CompletableFuture<InetAddress[]> started = new CompletableFuture<>();
            Loop.newThread("authorizerd-client-lookup", () -> {
                try {
                    started.complete(InetAddress.getAllByName(host));
                } catch (UnknownHostException failure) {
                    started.completeExceptionally(failure);
                }
            }).start();
            lookup = started;
        }
        return lookup;
    }
}
