package org.apache.kafka.controller; // the package of AclRow

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
// AppInfoParser is in the second package since Kafka 4.4.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;

/**
 * Drives Kafka's own AdminClient: reads one call per line, prints one answer.
 *
 * <p>Calls and answers are JSON. A call has "client" (a client's configuration), "method", and its arguments. An
 * answer has "value", or "error" with a code. ACLs and filters are arrays, as AclRow reads and writes them. A call
 * with "tool" runs one of Kafka's tools instead.
 */
public final class AdminPeer {
    private static final JsonMapper JSON = new JsonMapper();

    private final Map<Map<String, Object>, Admin> clients = new HashMap<>();

    private AdminPeer() { }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        AdminPeer peer = new AdminPeer();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            answers.println(JSON.writeValueAsString(peer.answer(JSON.readTree(line))));
        }
        peer.clients.values().forEach(Admin::close);
    }

    private Map<String, Object> answer(JsonNode call) throws IOException, InterruptedException {
        Map<String, Object> answer = new HashMap<>();
        if (call.has("tool")) {
            answer.put("value", ToolRun.run(call.get("tool").asText(), JSON.convertValue(
                call.get("arguments"), String[].class)));
            return answer;
        }
        Map<String, Object> configuration = JSON.convertValue(call.get("client"), new TypeReference<>() { });
        Admin admin = clients.computeIfAbsent(configuration, Admin::create);
        try {
            answer.put("value", value(admin, call));
        } catch (ExecutionException error) {
            answer.put("error", code(error));
        }
        return answer;
    }

    private static Object value(Admin admin, JsonNode call)
            throws IOException, InterruptedException, ExecutionException {
        return switch (call.get("method").asText()) {
            case "version" -> AppInfoParser.getVersion();
            case "create ACLs" -> created(admin, call.get("acls"));
            case "describe ACLs" -> rows(admin.describeAcls(filter(call)).values().get());
            case "delete ACLs" -> rows(admin.deleteAcls(List.of(filter(call))).all().get());
            case "describe cluster" -> cluster(admin);
            case "list groups" -> admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            case "describe groups" -> told(
                admin.describeConsumerGroups(names(call), new DescribeConsumerGroupsOptions()
                    .includeAuthorizedOperations(true)).describedGroups(),
                group -> operations(group.authorizedOperations()));
            case "describe topics" -> told(
                admin.describeTopics(names(call), new DescribeTopicsOptions()
                    .includeAuthorizedOperations(true)).topicNameValues(),
                topic -> operations(topic.authorizedOperations()));
            case "describe configs" -> configs(admin, node(call));
            case "alter configs" -> altered(admin, node(call), call);
            case "describe quorum" -> quorum(admin.describeMetadataQuorum().quorumInfo().get());
            case "alter SCRAM credentials" -> credentialAltered(admin, call);
            case "describe SCRAM credentials" -> credentials(admin, call.get("user").asText());
            default -> throw new IllegalArgumentException(call.toString());
        };
    }

    private static List<Integer> created(Admin admin, JsonNode rows) throws IOException, InterruptedException {
        List<AclBinding> bindings = new ArrayList<>();
        for (JsonNode row : rows) {
            bindings.add(JSON.treeToValue(row, AclRow.class).binding());
        }
        Map<AclBinding, KafkaFuture<Void>> results = admin.createAcls(bindings).values();
        List<Integer> codes = new ArrayList<>();
        for (AclBinding binding : bindings) {
            codes.add(code(results.get(binding)));
        }
        return codes;
    }

    private static AclBindingFilter filter(JsonNode call) throws IOException {
        return JSON.treeToValue(call.get("filter"), AclRow.class).filter();
    }

    private static List<AclRow> rows(Collection<AclBinding> bindings) {
        return bindings.stream().map(AclRow::of).toList();
    }

    private static Map<String, Object> cluster(Admin admin) throws InterruptedException, ExecutionException {
        DescribeClusterResult told = admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true));
        return Map.of(
            "nodes", told.nodes().get().stream().map(Node::id).toList(),
            "operations", operations(told.authorizedOperations().get()));
    }

    private static List<String> names(JsonNode call) {
        return JSON.convertValue(call.get("names"), new TypeReference<>() { });
    }

    private static List<String> operations(Collection<AclOperation> operations) {
        return operations.stream().map(AclOperation::name).toList();
    }

    /** Returns a call's result for each name, or the error's code. */
    private static <T> Map<String, Object> told(Map<String, KafkaFuture<T>> results, Function<T, Object> tell)
            throws InterruptedException {
        Map<String, Object> told = new TreeMap<>();
        for (Map.Entry<String, KafkaFuture<T>> result : results.entrySet()) {
            Object value;
            try {
                value = tell.apply(result.getValue().get());
            } catch (ExecutionException error) {
                value = code(error);
            }
            told.put(result.getKey(), value);
        }
        return told;
    }

    private static ConfigResource node(JsonNode call) {
        return new ConfigResource(ConfigResource.Type.BROKER, call.get("node").asText());
    }

    private static Map<String, Object> configs(Admin admin, ConfigResource node)
            throws InterruptedException, ExecutionException {
        Map<String, Object> configs = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(node)).all().get().get(node).entries()) {
            List<Object> told = new ArrayList<>(); // unlike List.of, it may contain null
            told.add(entry.value());
            told.add(entry.source().name());
            configs.put(entry.name(), told);
        }
        return configs;
    }

    private static Object altered(Admin admin, ConfigResource node, JsonNode call)
            throws InterruptedException, ExecutionException {
        AlterConfigOp operation = new AlterConfigOp(
            new ConfigEntry(call.get("name").asText(), call.get("value").textValue()),
            call.get("value").isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(node, List.of(operation))).all().get();
    }

    private static Map<String, Object> quorum(QuorumInfo told) {
        return Map.of(
            "leader", told.leaderId(),
            "voters", told.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList());
    }

    private static Object credentialAltered(Admin admin, JsonNode call)
            throws InterruptedException, ExecutionException {
        String user = call.get("user").asText();
        ScramMechanism mechanism = ScramMechanism.fromMechanismName(call.get("mechanism").asText());
        UserScramCredentialAlteration alteration = call.get("iterations").isNull()
            ? new UserScramCredentialDeletion(user, mechanism)
            : new UserScramCredentialUpsertion(
                user, new ScramCredentialInfo(mechanism, call.get("iterations").asInt()), call.get("password").asText());
        return admin.alterUserScramCredentials(List.of(alteration)).all().get();
    }

    private static Map<String, Integer> credentials(Admin admin, String user)
            throws InterruptedException, ExecutionException {
        Map<String, Integer> iterations = new TreeMap<>();
        for (ScramCredentialInfo info :
                admin.describeUserScramCredentials(List.of(user)).description(user).get().credentialInfos()) {
            iterations.put(info.mechanism().mechanismName(), info.iterations());
        }
        return iterations;
    }

    private static int code(KafkaFuture<Void> result) throws InterruptedException {
        try {
            result.get();
            return Errors.NONE.code();
        } catch (ExecutionException error) {
            return code(error);
        }
    }

    private static int code(ExecutionException error) {
        return Errors.forException(error.getCause()).code();
    }
}
