package authorizerd.client;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

/** Certificates and private keys in PEM files. */
final class Pem {
    private static final Pattern BLOCK =
            Pattern.compile("-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \\1-----", Pattern.DOTALL);
    private static final String[] KEY_ALGORITHMS = {"EC", "RSA", "EdDSA", "RSASSA-PSS"};
    private static final byte[] VERSION_0 = {2, 1, 0};
    /** The algorithm of an RSA key: its OID and NULL. */
    private static final byte[] RSA =
            {0x30, 13, 6, 9, 0x2a, (byte) 0x86, 0x48, (byte) 0x86, (byte) 0xf7, 13, 1, 1, 1, 5, 0};
    private static final byte[] EC_OID = {6, 7, 0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 2, 1};

    private Pem() {}

    private record Block(String label, byte[] content) {}

    /** Return at least one certificate, in the file's order. */
    static List<X509Certificate> readCertificates(Path file) {
        List<X509Certificate> found = new ArrayList<>();
        try {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            for (Block block : readBlocks(file)) {
                if (block.label.equals("CERTIFICATE")) {
                    found.add((X509Certificate)
                            factory.generateCertificate(new ByteArrayInputStream(block.content)));
                }
            }
        } catch (GeneralSecurityException error) {
            throw new IllegalArgumentException(file + ": invalid certificate: " + error.getMessage(), error);
        }
        if (found.isEmpty()) {
            throw new IllegalArgumentException(file + ": expected a certificate in PEM, found none");
        }
        return found;
    }

    /** Return the first private key; {@code password} may be null. */
    static PrivateKey readKey(Path file, char[] password) {
        for (Block block : readBlocks(file)) {
            try {
                switch (block.label) {
                    case "PRIVATE KEY":
                        return newKey(block.content);
                    case "RSA PRIVATE KEY":
                        return newKey(wrap(0x30, VERSION_0, RSA, wrap(4, block.content)));
                    case "EC PRIVATE KEY":
                        byte[] algorithm = wrap(0x30, EC_OID, readCurve(block.content));
                        return newKey(wrap(0x30, VERSION_0, algorithm, wrap(4, block.content)));
                    case "ENCRYPTED PRIVATE KEY":
                        return newKey(decrypt(block.content, password));
                    default: // a certificate, or parameters
                }
            } catch (GeneralSecurityException | IOException | RuntimeException error) {
                throw new IllegalArgumentException(file + ": invalid private key: " + error.getMessage(), error);
            }
        }
        throw new IllegalArgumentException(file + ": expected a private key in PEM, found none");
    }

    private static List<Block> readBlocks(Path file) {
        List<Block> blocks = new ArrayList<>();
        try {
            Matcher matcher = BLOCK.matcher(Files.readString(file, StandardCharsets.ISO_8859_1));
            while (matcher.find()) {
                String text = matcher.group(2);
                if (text.indexOf(':') >= 0) {
                    throw new IllegalArgumentException(file + ": " + matcher.group(1)
                            + " is in OpenSSL's old format: convert it with 'openssl pkcs8 -topk8'");
                }
                blocks.add(new Block(matcher.group(1), Base64.getMimeDecoder().decode(text)));
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return blocks;
    }

    private static PrivateKey newKey(byte[] pkcs8) throws GeneralSecurityException {
        GeneralSecurityException failure = null;
        for (String algorithm : KEY_ALGORITHMS) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(pkcs8));
            } catch (InvalidKeySpecException error) {
                failure = error;
            }
        }
        throw failure;
    }

    private static byte[] decrypt(byte[] content, char[] password)
            throws GeneralSecurityException, IOException {
        if (password == null) {
            throw new IllegalArgumentException("it is encrypted: give its password");
        }
        EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(content);
        // PBES2 names its algorithms only in its parameters.
        String algorithm = info.getAlgParameters() == null
                ? info.getAlgName() : info.getAlgParameters().toString();
        SecretKeyFactory keys = SecretKeyFactory.getInstance(algorithm);
        Cipher cipher = Cipher.getInstance(algorithm);
        cipher.init(Cipher.DECRYPT_MODE, keys.generateSecret(new PBEKeySpec(password)), info.getAlgParameters());
        return info.getKeySpec(cipher).getEncoded();
    }

    /** Return the curve of an EC key (RFC 5915): what is in its field with the tag [0]. */
    private static byte[] readCurve(byte[] key) {
        int at = skipHead(key, 0);
        while (at < key.length) {
            int start = skipHead(key, at);
            int end = start + readLength(key, at);
            if ((key[at] & 0xff) == 0xa0) {
                return Arrays.copyOfRange(key, start, end);
            }
            at = end;
        }
        throw new IllegalArgumentException("the EC key does not name its curve");
    }

    private static int readLength(byte[] der, int at) {
        int first = der[at + 1] & 0xff;
        int length = first < 0x80 ? first : 0;
        for (int index = 0; first >= 0x80 && index < (first & 0x7f); index++) {
            length = length << 8 | der[at + 2 + index] & 0xff;
        }
        return length;
    }

    private static int skipHead(byte[] der, int at) {
        int first = der[at + 1] & 0xff;
        return at + 2 + (first < 0x80 ? 0 : first & 0x7f);
    }

    /** Return the DER value with this tag and these parts. */
    private static byte[] wrap(int tag, byte[]... parts) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            content.writeBytes(part);
        }
        ByteArrayOutputStream value = new ByteArrayOutputStream();
        value.write(tag);
        if (content.size() >= 0x100) {
            value.write(0x82);
            value.write(content.size() >> 8);
        } else if (content.size() >= 0x80) {
            value.write(0x81);
        }
        value.write(content.size());
        value.writeBytes(content.toByteArray());
        return value.toByteArray();
    }
}
