package org.apache.kafka.controller;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Creations and deletions, step by step, on one AclControlManager. Each step's records are replayed after it.
 *
 * <p>"level" is the cluster's metadata.version, by default the release's newest. Only releases since 4.4 ask for it.
 */
record AdministrationCase(List<Step> steps, Short level) {

    /** Exactly one of the two is present. */
    record Step(List<AclRow> create, List<AclRow> delete) { }

    record Answer(List<Object> steps, int aclCount) { }

    record Error(int code, String message) {
        static Error of(ApiException exception) {
            return new Error(Errors.forException(exception).code(), exception.getMessage());
        }
    }

    /** An error or null for each ACL, and the ACLs that were written. */
    record Creation(List<Error> errors, List<AclRow> written) { }

    /** For one filter: its error, or the ACLs that it deletes. */
    record Deleted(Error error, List<AclRow> acls) { }

    /** An entry for each filter. A removed ACL is named by its position among the written ones. */
    record Deletion(List<Deleted> results, List<Integer> removed) { }

    Answer answer() {
        MetadataVersion version =
            level == null ? MetadataVersion.latestProduction() : MetadataVersion.fromFeatureLevel(level);
        Session session = new Session(new AclControlManager.Builder().build(), version, new HashMap<>());
        List<Object> answers = new ArrayList<>();
        for (Step step : steps) {
            answers.add(step.create == null ? session.delete(step.delete) : session.create(step.create));
        }
        return new Answer(answers, session.manager.idToAcl().size());
    }

    private record Session(AclControlManager manager, MetadataVersion version, Map<Uuid, Integer> places) {
        private static final Method CREATE_ACLS = Arrays.stream(AclControlManager.class.getDeclaredMethods())
            .filter(method -> method.getName().equals("createAcls")).findFirst().orElseThrow();

        @SuppressWarnings("unchecked")
        private ControllerResult<List<AclCreateResult>> createAcls(List<AclBinding> bindings) {
            try {
                return (ControllerResult<List<AclCreateResult>>) (CREATE_ACLS.getParameterCount() == 1
                    ? CREATE_ACLS.invoke(manager, bindings) : CREATE_ACLS.invoke(manager, bindings, version));
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }

        Creation create(List<AclRow> rows) {
            ControllerResult<List<AclCreateResult>> created = createAcls(rows.stream().map(AclRow::binding).toList());
            List<Error> errors = new ArrayList<>();
            for (AclCreateResult result : created.response()) {
                errors.add(result.exception().map(Error::of).orElse(null));
            }
            List<AclRow> written = new ArrayList<>();
            for (ApiMessageAndVersion message : created.records()) {
                AccessControlEntryRecord record = (AccessControlEntryRecord) message.message();
                places.put(record.id(), places.size() + 1);
                manager.replay(record);
                written.add(AclRow.of(manager.idToAcl().get(record.id()).toBinding()));
            }
            return new Creation(errors, written);
        }

        Deletion delete(List<AclRow> rows) {
            ControllerResult<List<AclDeleteResult>> deleted =
                manager.deleteAcls(rows.stream().map(AclRow::filter).toList());
            List<Deleted> results = new ArrayList<>();
            for (AclDeleteResult result : deleted.response()) {
                results.add(new Deleted(
                    result.exception().map(Error::of).orElse(null),
                    result.aclBindingDeleteResults().stream().map(each -> AclRow.of(each.aclBinding())).toList()));
            }
            List<Integer> removed = new ArrayList<>();
            for (ApiMessageAndVersion message : deleted.records()) {
                RemoveAccessControlEntryRecord record = (RemoveAccessControlEntryRecord) message.message();
                removed.add(places.get(record.id()));
                manager.replay(record);
            }
            removed.sort(null);
            return new Deletion(results, removed);
        }
    }
}
