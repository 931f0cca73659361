package org.apache.kafka.controller; // AclControlManager is open to its own package only

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * Answers cases with Kafka's own StandardAuthorizer and AclControlManager: reads one case per line, prints one answer.
 *
 * <p>Cases and answers are JSON. A case with "steps" has creations and deletions; any other case has decisions.
 */
public final class Oracle {
    private static final JsonMapper JSON = new JsonMapper();

    private Oracle() { }

    public static void main(String[] arguments) throws IOException {
        AuditTexts audit = AuditTexts.listen();
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter answers = new PrintWriter(
                new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)))) {
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                answers.println(JSON.writeValueAsString(answer(JSON.readTree(line), audit)));
            }
        }
    }

    private static Object answer(JsonNode read, AuditTexts audit) throws IOException {
        if (read.has("steps")) {
            return JSON.treeToValue(read, AdministrationCase.class).answer();
        }
        return JSON.treeToValue(read, DecisionCase.class).answer(audit);
    }
}
