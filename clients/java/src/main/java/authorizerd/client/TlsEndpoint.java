package authorizerd.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;

/**
 * The TLS of one address, and the reason if there is none.
 *
 * <p>Until the daemon has answered once, a connection that it closes is a {@link TlsException}: one
 * of the two is probably misconfigured, so trying again would only hide the reason. Afterwards, such
 * a connection is lost like any other, for instance because the daemon restarts.
 */
final class TlsEndpoint {
    private static final String NEEDS_CERTIFICATE =
            "load the client's certificate and key with Tls.withCertificate";

    /** Why the daemon refuses the client, by Java's names of the alerts. */
    private static final Map<String, String> ALERTS = Map.of(
            "certificate_required", "the daemon requires a client certificate: " + NEEDS_CERTIFICATE,
            "handshake_failure", "the daemon refused the handshake: it requires a client certificate ("
                    + NEEDS_CERTIFICATE + "), or it shares no cipher suite with this client",
            "unknown_ca", "the daemon does not know the CA of the client certificate: use a certificate of a"
                    + " CA in the daemon's truststore",
            "certificate_expired", "the client certificate has expired: renew it",
            "certificate_revoked", "the client certificate was revoked by its CA: replace it",
            "protocol_version", "the daemon and this client have no TLS version in common: check the"
                    + " daemon's ssl.enabled.protocols and Tls.withProtocols");
    private static final Pattern ALERT = Pattern.compile("fatal alert: (\\w+)");
    private static final Pattern OTHER_NAME = Pattern.compile("(?i)no (subject alternative|name matching).*");
    private static final Pattern NO_TLS = Pattern.compile(
            "(?i).*(unrecognized SSL message|plaintext connection|unsupported record version).*");

    /** True once the daemon has answered over a connection. */
    boolean hasAnswered;

    private final String host;
    private final int port;
    private final Tls tls;
    private final SSLContext context;

    TlsEndpoint(String host, int port, Tls tls) {
        this.host = host;
        this.port = port;
        this.tls = tls;
        context = tls.newContext();
        warmUp();
    }

    /**
     * Write the first message of a handshake that never takes place: this loads most of Java's TLS,
     * which the client's thread has no time for.
     */
    private void warmUp() {
        try {
            SSLEngine engine = newEngine();
            engine.beginHandshake();
            engine.wrap(ByteBuffer.allocate(0), ByteBuffer.allocate(engine.getSession().getPacketBufferSize()));
        } catch (SSLException ignored) {
            // a connection will say why
        }
    }

    /** Return the client's half of a new connection, which checks the daemon's certificate and name. */
    SSLEngine newEngine() {
        SSLEngine engine = context.createSSLEngine(host, port);
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        if (tls.protocols() != null) {
            parameters.setProtocols(tls.protocols());
        }
        engine.setSSLParameters(parameters);
        return engine;
    }

    /** Return the error for a fault before the daemon has answered the hello. */
    AuthorizerdException newError(Exception error, boolean isEstablished) {
        if (error instanceof SSLException) {
            return new TlsException(explain(error), error);
        }
        if (error instanceof IOException) {
            return newClosedError(isEstablished); // it was reset
        }
        return new ConnectionLostException("the connection broke: " + error.getMessage(), error);
    }

    /** Return the error for a connection that the daemon has closed. */
    AuthorizerdException newClosedError(boolean isEstablished) {
        if (hasAnswered) {
            return new ConnectionLostException("the daemon closed the connection");
        }
        if (isEstablished) {
            return new TlsException("the daemon closed the connection after the handshake: it may require"
                    + " another client certificate; its log has the reason");
        }
        return new TlsException("the daemon closed the connection during the handshake: it may not speak TLS"
                + " at this address (then use tcp://HOST:PORT), or refuse the connection; its log has the"
                + " reason");
    }

    /** Return the reason and the remedy. */
    private String explain(Exception error) {
        String message = String.valueOf(error.getMessage());
        Matcher alert = ALERT.matcher(message);
        if (alert.find()) {
            return ALERTS.getOrDefault(alert.group(1),
                    "the daemon refused the handshake (" + alert.group(1) + "): its log has the reason");
        }
        if (NO_TLS.matcher(message).matches()) {
            return "the daemon does not speak TLS at this address: use tcp://HOST:PORT";
        }
        if (find(error, CertificateNotYetValidException.class) != null) {
            return "the daemon's certificate is not valid yet: compare the clocks of both machines";
        }
        if (find(error, CertificateExpiredException.class) != null) {
            return "the daemon's certificate, or that of its CA, has expired: renew it, or correct this"
                    + " machine's clock";
        }
        if (find(error, Tls.SelfSignedException.class) != null) {
            return "the daemon's certificate is self-signed: to trust it, load it with Tls.trust";
        }
        if (find(error, CertPathBuilderException.class) != null) {
            return "the daemon's certificate was issued by an unknown CA: load the CA's certificate with"
                    + " Tls.trust";
        }
        CertificateException certificate = find(error, CertificateException.class);
        if (certificate != null && OTHER_NAME.matcher(String.valueOf(certificate.getMessage())).matches()) {
            return "the daemon's certificate is not valid for '" + host + "': connect to a name in the"
                    + " certificate, or issue a certificate with this name";
        }
        return "the TLS handshake failed: " + message;
    }

    /** Return the first cause of a type, or null. */
    static <T extends Throwable> T find(Throwable error, Class<T> type) {
        Throwable found = error;
        for (int depth = 0; found != null && depth < 20; depth++) {
            if (type.isInstance(found)) {
                return type.cast(found);
            }
            found = found.getCause();
        }
        return null;
    }
}
