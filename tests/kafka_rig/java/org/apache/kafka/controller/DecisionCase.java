package org.apache.kafka.controller;

import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
// SecurityUtils is in the second package since Kafka 4.4.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/**
 * Questions to a StandardAuthorizer with the case's ACLs.
 *
 * <p>An ACL's id is its position, counted from 1; a repeated ACL keeps its first id. "load" is "snapshot" or "add"
 * (one by one). Afterwards the ids in "removeIds" are removed.
 */
@JsonIgnoreProperties(ignoreUnknown = true)
record DecisionCase(
        String superUsers,
        boolean allowEveryone,
        List<AclRow> acls,
        String load,
        List<Long> removeIds,
        List<Question> requests,
        List<AclRow> filters,
        List<Question> byResourceType) {

    /** A question as a JSON array; a question about a whole resource type has no name. */
    @JsonFormat(shape = JsonFormat.Shape.ARRAY)
    record Question(String principal, String host, AclOperation operation, ResourceType resourceType, String name) { }

    /**
     * For each question: "A", "D", or "!" with an exception; and the level and text of its audit line, or null. For
     * each filter: the positions of the ACLs that it matches, counted from 0.
     */
    record Answer(
            List<String> decisions,
            List<List<String>> audit,
            List<List<Integer>> filters,
            List<String> byResourceType,
            int aclCount) { }

    Answer answer(AuditTexts audit) {
        Map<StandardAcl, Integer> places = places();
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(configuration());
        try (Metrics metrics = new Metrics()) {
            wrap(authorizer, metrics);
            authorizer.start(new Server());
            load(authorizer, places);
            List<String> decisions = new ArrayList<>();
            List<List<String>> audited = new ArrayList<>();
            for (Question question : requests) {
                audit.take();
                decisions.add(letter(() -> authorizer.authorize(Client.of(question), List.of(action(question))).get(0)));
                audited.add(audit.take());
            }
            return new Answer(
                decisions,
                audited,
                filters.stream().map(row -> found(authorizer, row, places)).toList(),
                byResourceType.stream().map(question -> byResourceType(authorizer, question)).toList(),
                authorizer.aclCount());
        }
    }

    /** Gives the authorizer the metrics that only a wrapped plug-in has: since 4.1, authorize() needs them. */
    private static void wrap(StandardAuthorizer authorizer, Metrics metrics) {
        try {
            Class.forName("org.apache.kafka.common.internals.Plugin")
                .getMethod("wrapInstance", Object.class, Metrics.class, String.class)
                .invoke(null, authorizer, metrics, "authorizer.class.name");
        } catch (ClassNotFoundException before41) {
            // It counts without them.
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private Map<StandardAcl, Integer> places() {
        Map<StandardAcl, Integer> places = new LinkedHashMap<>();
        for (int place = 0; place < acls.size(); place++) {
            places.putIfAbsent(acls.get(place).acl(), place);
        }
        return places;
    }

    private Map<String, Object> configuration() {
        Map<String, Object> configuration = new HashMap<>();
        configuration.put("node.id", "1");
        configuration.put("allow.everyone.if.no.acl.found", String.valueOf(allowEveryone));
        if (superUsers != null) {
            configuration.put("super.users", superUsers);
        }
        return configuration;
    }

    private void load(StandardAuthorizer authorizer, Map<StandardAcl, Integer> places) {
        Map<Uuid, StandardAcl> byId = new LinkedHashMap<>();
        places.forEach((acl, place) -> byId.put(new Uuid(0, place + 1L), acl));
        if ("add".equals(load)) {
            byId.forEach(authorizer::addAcl);
        } else {
            authorizer.loadSnapshot(byId);
        }
        if (removeIds != null) {
            removeIds.forEach(id -> authorizer.removeAcl(new Uuid(0, id)));
        }
        authorizer.completeInitialLoad();
    }

    private static Action action(Question question) {
        ResourcePattern resource = new ResourcePattern(question.resourceType, question.name, PatternType.LITERAL);
        return new Action(question.operation, resource, 1, true, true);
    }

    private static String byResourceType(StandardAuthorizer authorizer, Question question) {
        return letter(() -> authorizer.authorizeByResourceType(
            Client.of(question), question.operation, question.resourceType));
    }

    private static String letter(Callable<AuthorizationResult> question) {
        try {
            return question.call() == AuthorizationResult.ALLOWED ? "A" : "D";
        } catch (Exception exception) {
            return "!" + exception.getClass().getSimpleName() + ": " + exception.getMessage();
        }
    }

    private static List<Integer> found(StandardAuthorizer authorizer, AclRow row, Map<StandardAcl, Integer> places) {
        List<Integer> found = new ArrayList<>();
        for (AclBinding binding : authorizer.acls(row.filter())) {
            found.add(places.get(StandardAcl.fromAclBinding(binding)));
        }
        found.sort(null);
        return found;
    }

    private record Server() implements AuthorizerServerInfo {
        private static final Endpoint ENDPOINT =
            new Endpoint("SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT, "127.0.0.1", 9092);

        @Override
        public ClusterResource clusterResource() {
            return new ClusterResource(Uuid.ZERO_UUID.toString());
        }

        @Override
        public int brokerId() {
            return 1;
        }

        @Override
        public Collection<Endpoint> endpoints() {
            return List.of(ENDPOINT);
        }

        @Override
        public Endpoint interBrokerEndpoint() {
            return ENDPOINT;
        }

        @Override
        public Collection<String> earlyStartListeners() {
            return List.of();
        }
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        static Client of(Question question) throws UnknownHostException {
            return new Client(
                SecurityUtils.parseKafkaPrincipal(question.principal), InetAddress.getByName(question.host));
        }

        @Override
        public String listenerName() {
            return "SASL_PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_PLAINTEXT;
        }

        @Override
        public int requestType() {
            return ApiKeys.METADATA.id;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "oracle";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
