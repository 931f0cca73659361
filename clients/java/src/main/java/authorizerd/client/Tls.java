package authorizerd.client;

import java.io.IOException;
import java.net.Socket;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * How a client speaks TLS: which CAs it trusts, and its own certificate. Immutable.
 *
 * <p>The client always checks that the daemon's certificate is valid for the host in the address,
 * unless a trust manager in your own {@link SSLContext} turns this off.
 */
public final class Tls {
    private final SSLContext context;
    private final KeyStore authorities;
    private final KeyManager[] keys;
    private final String[] protocols;

    private Tls(SSLContext context, KeyStore authorities, KeyManager[] keys, String[] protocols) {
        this.context = context;
        this.authorities = authorities;
        this.keys = keys;
        this.protocols = protocols;
    }

    /**
     * Trust the CAs of the Java runtime.
     *
     * @return a configuration without a client certificate
     */
    public static Tls systemDefault() {
        return new Tls(null, null, null, null);
    }

    /**
     * Trust the CAs in a file.
     *
     * @param file with one or more certificates in PEM
     * @return a configuration without a client certificate
     * @throws java.io.UncheckedIOException if the file cannot be read
     * @throws IllegalArgumentException if it contains no valid certificate
     */
    public static Tls trust(Path file) {
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (X509Certificate each : Pem.readCertificates(file)) {
                store.setCertificateEntry("ca-" + store.size(), each);
            }
            return new Tls(null, store, null, null);
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalArgumentException(file + ": " + error.getMessage(), error);
        }
    }

    /**
     * Use your own context, which has its own CAs and certificates.
     *
     * @param context that is initialized
     * @return a configuration with this context
     */
    public static Tls of(SSLContext context) {
        return new Tls(Objects.requireNonNull(context, "context"), null, null, null);
    }

    /**
     * Present a certificate whose key is not encrypted.
     *
     * @param certificate a file with the certificate in PEM, and those of its intermediate CAs
     * @param key a file with the private key in PEM; may be the same file
     * @return this configuration with the certificate
     * @throws java.io.UncheckedIOException if a file cannot be read
     * @throws IllegalArgumentException if a file has other contents
     * @throws IllegalStateException if this configuration has its own context
     */
    public Tls withCertificate(Path certificate, Path key) {
        return withCertificate(certificate, key, null);
    }

    /**
     * Present a certificate.
     *
     * @param certificate a file with the certificate in PEM, and those of its intermediate CAs
     * @param key a file with the private key in PEM; may be the same file
     * @param password of an encrypted key (PKCS #8); null if the key is not encrypted
     * @return this configuration with the certificate
     * @throws java.io.UncheckedIOException if a file cannot be read
     * @throws IllegalArgumentException if a file has other contents, or the password is wrong
     * @throws IllegalStateException if this configuration has its own context
     */
    public Tls withCertificate(Path certificate, Path key, char[] password) {
        if (context != null) {
            throw new IllegalStateException("the SSLContext has its own certificates");
        }
        X509Certificate[] chain = Pem.readCertificates(certificate).toArray(new X509Certificate[0]);
        KeyManager manager = new OneKey(chain, Pem.readKey(key, password));
        return new Tls(null, authorities, new KeyManager[] {manager}, protocols);
    }

    /**
     * Choose the versions of TLS.
     *
     * @param protocols Java's names, such as {@code TLSv1.3}
     * @return this configuration with these versions only
     */
    public Tls withProtocols(String... protocols) {
        return new Tls(context, authorities, keys, protocols.clone());
    }

    /** Return a context that trusts and presents what this says. */
    SSLContext newContext() {
        if (context != null) {
            return context;
        }
        try {
            TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            factory.init(authorities);
            TrustManager[] managers = Arrays.stream(factory.getTrustManagers())
                    .map(each -> each instanceof X509ExtendedTrustManager found ? new NamingSelfSigned(found) : each)
                    .toArray(TrustManager[]::new);
            SSLContext made = SSLContext.getInstance("TLS");
            made.init(keys, managers, null);
            return made;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("TLS is not available: " + error.getMessage(), error);
        }
    }

    /** Return the versions to speak; null for those of the context. */
    String[] protocols() {
        return protocols;
    }

    /** The daemon's certificate was issued by itself, and is not trusted. */
    static final class SelfSignedException extends CertificateException {
        private static final long serialVersionUID = 1;

        SelfSignedException(CertificateException cause) {
            super(cause);
        }
    }

    /** Finds the same as another trust manager, and tells self-signed certificates from others. */
    private static final class NamingSelfSigned extends X509ExtendedTrustManager {
        private final X509ExtendedTrustManager checks;

        NamingSelfSigned(X509ExtendedTrustManager checks) {
            this.checks = checks;
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine)
                throws CertificateException {
            try {
                checks.checkServerTrusted(chain, type, engine);
            } catch (CertificateException error) {
                boolean isUnknown = TlsEndpoint.find(error, CertPathBuilderException.class) != null;
                if (isUnknown && chain[0].getIssuerX500Principal().equals(chain[0].getSubjectX500Principal())) {
                    throw new SelfSignedException(error);
                }
                throw error;
            }
        }

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return checks.getAcceptedIssuers();
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket)
                throws CertificateException {
            checks.checkServerTrusted(chain, type, socket);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
            checks.checkServerTrusted(chain, type);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket)
                throws CertificateException {
            checks.checkClientTrusted(chain, type, socket);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine)
                throws CertificateException {
            checks.checkClientTrusted(chain, type, engine);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
            checks.checkClientTrusted(chain, type);
        }
    }

    /** Presents its certificate, whatever CAs the daemon names, so that the daemon says what is wrong. */
    private static final class OneKey extends X509ExtendedKeyManager {
        private static final String ALIAS = "client";
        private final X509Certificate[] chain;
        private final PrivateKey key;

        OneKey(X509Certificate[] chain, PrivateKey key) {
            this.chain = chain;
            this.key = key;
        }

        @Override
        public String chooseEngineClientAlias(String[] types, Principal[] issuers, SSLEngine engine) {
            return List.of(types).contains(key.getAlgorithm()) ? ALIAS : null;
        }

        @Override
        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            return chooseEngineClientAlias(types, issuers, null);
        }

        @Override
        public String[] getClientAliases(String type, Principal[] issuers) {
            return new String[] {ALIAS};
        }

        @Override
        public String[] getServerAliases(String type, Principal[] issuers) {
            return null;
        }

        @Override
        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return null;
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return chain;
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return key;
        }
    }
}
