# Kafka's decision in Rego. This index of the ACLs is the fastest for OPA:
# data.acls[permission][pattern type][resource type][name][principal][operation][host] = true
package kafka.authz

import rego.v1

default allow := false

allow if {
	matched("ALLOW", allowing[input.operation])
	not matched("DENY", {input.operation, "ALL"})
}

allows := [allowed |
	some question in input.questions
	allowed := allow with input as question
]

allowing := {
	"READ": {"READ", "ALL"},
	"WRITE": {"WRITE", "ALL"},
	"CREATE": {"CREATE", "ALL"},
	"DELETE": {"DELETE", "ALL"},
	"ALTER": {"ALTER", "ALL"},
	"DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
	"ALTER_CONFIGS": {"ALTER_CONFIGS", "ALL"},
	"DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}

matched(permission, operations) if {
	some name in [input.name, "*"]
	rules_match(data.acls[permission].LITERAL[input.type][name], operations)
}

matched(permission, operations) if {
	some length in data.prefix_lengths[input.type]
	name := substring(input.name, 0, length)
	rules_match(data.acls[permission].PREFIXED[input.type][name], operations)
}

rules_match(by_principal, operations) if {
	some principal in [input.principal, "User:*"]
	some operation in operations
	some host in [input.host, "*"]
	by_principal[principal][operation][host]
}
