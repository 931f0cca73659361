package org.apache.kafka.common.security;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.security.auth.login.AppConfigurationEntry;

import org.apache.kafka.common.utils.Utils;

/**
 * Prints what Kafka reads from JAAS lines and properties files: reads one case per line, prints one answer.
 *
 * <p>A case is a JSON object with a "jaas" line, whose answer is the login module and its options, or with the
 * "properties" of a file, whose answer are these. The file's encoding is ISO-8859-1. An answer of null is an error.
 */
public final class SettingsOracle {
    private static final JsonMapper JSON =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private SettingsOracle() { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Path file = Files.createTempFile("oracle", ".properties");
        try (PrintWriter answers = new PrintWriter(
                new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                JsonNode read = JSON.readTree(line);
                answers.println(JSON.writeValueAsString(read.has("jaas")
                    ? login(read.get("jaas").asText()) : properties(read.get("properties").asText(), file)));
            }
        } finally {
            Files.delete(file);
        }
    }

    private static List<Object> login(String line) {
        AppConfigurationEntry[] entries;
        try {
            entries = new JaasConfig("KafkaServer", line).getAppConfigurationEntry("KafkaServer");
        } catch (IllegalArgumentException e) {
            return null;
        }
        // As in JaasContext.load, which is private.
        return entries.length == 1 ? List.of(entries[0].getLoginModuleName(), named(entries[0].getOptions())) : null;
    }

    /** Leave out an option without a name, which is a null key. */
    private static Map<String, Object> named(Map<String, ?> options) {
        return options.entrySet().stream().filter(each -> Objects.nonNull(each.getKey()))
            .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    private static Map<Object, Object> properties(String text, Path file) throws IOException {
        Files.writeString(file, text, StandardCharsets.ISO_8859_1);
        Properties read;
        try {
            read = Utils.loadProps(file.toString());
        } catch (IllegalArgumentException e) {
            return null;
        }
        return new TreeMap<>(read);
    }
}
