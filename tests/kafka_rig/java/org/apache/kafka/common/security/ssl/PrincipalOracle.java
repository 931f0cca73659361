package org.apache.kafka.common.security.ssl;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import javax.security.auth.x500.X500Principal;

/**
 * Prints the names and principals that Java and Kafka give: reads one case per line, prints one answer.
 *
 * <p>A case is a JSON object with hexadecimal "name" or "certificate", whose answer is the text of the name; or with
 * "rules" and "names", whose answer is a list of principals. An answer of null is an error.
 */
public final class PrincipalOracle {
    private static final JsonMapper JSON =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private PrincipalOracle() { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter answers = new PrintWriter(
                new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            }
        }
    }

    private static Object answer(JsonNode read) {
        if (read.has("name")) {
            return name(HexFormat.of().parseHex(read.get("name").asText()));
        }
        if (read.has("certificate")) {
            return subject(HexFormat.of().parseHex(read.get("certificate").asText()));
        }
        return principals(read.get("rules").asText(), read.get("names"));
    }

    private static String name(byte[] encoded) {
        try {
            return new X500Principal(encoded).getName();
        } catch (RuntimeException e) {
            return null;
        }
    }

    private static String subject(byte[] encoded) {
        try {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            X509Certificate certificate =
                (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(encoded));
            return certificate.getSubjectX500Principal().getName();
        } catch (CertificateException | RuntimeException e) {
            return null;
        }
    }

    private static List<String> principals(String rules, JsonNode names) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException | StackOverflowError e) {
            return null;
        }
        List<String> principals = new ArrayList<>();
        for (JsonNode name : names) {
            principals.add(principal(mapper, name.asText()));
        }
        return principals;
    }

    private static String principal(SslPrincipalMapper mapper, String name) {
        try {
            return mapper.getName(name);
        } catch (IOException | RuntimeException | StackOverflowError e) {
            return null;
        }
    }
}
