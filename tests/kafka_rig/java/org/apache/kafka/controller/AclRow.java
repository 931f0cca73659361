package org.apache.kafka.controller;

import com.fasterxml.jackson.annotation.JsonFormat;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAcl;

/** An ACL, or a filter of ACLs (null matches any value), as a JSON array of its seven fields. */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
record AclRow(
        ResourceType resourceType,
        String name,
        PatternType patternType,
        String principal,
        String host,
        AclOperation operation,
        AclPermissionType permission) {

    static AclRow of(AclBinding binding) {
        ResourcePattern pattern = binding.pattern();
        AccessControlEntry entry = binding.entry();
        return new AclRow(pattern.resourceType(), pattern.name(), pattern.patternType(),
            entry.principal(), entry.host(), entry.operation(), entry.permissionType());
    }

    StandardAcl acl() {
        return new StandardAcl(resourceType, name, patternType, principal, host, operation, permission);
    }

    AclBinding binding() {
        return new AclBinding(
            new ResourcePattern(resourceType, name, patternType),
            new AccessControlEntry(principal, host, operation, permission));
    }

    AclBindingFilter filter() {
        return new AclBindingFilter(
            new ResourcePatternFilter(resourceType, name, patternType),
            new AccessControlEntryFilter(principal, host, operation, permission));
    }
}
