"""Mutants of the formats of ACLs: each grants or removes what a text does not say."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LOSSES: Final = (
    "tests/management/formats/test_losses.py::test_acl_that_a_format_cannot_say_is_a_loss"
)

FORMAT_MUTANTS: Final = (
    Mutant(
        name="the console reads ACLs in formats that are slow to read",
        file="daemon/queries/candidates.py",
        text='read_acl_text(text, "", PASTED_FORMATS)',
        becomes='read_acl_text(text, "")',
        found_by="tests/daemon/queries/test_candidates.py::test_other_texts_are_rejected",
    ),
    Mutant(
        name="a text like no format is only called malformed",
        file="management/formats/catalogue.py",
        text="return reason if _is_like(found, text) else",
        becomes="return reason if True else",
        found_by="tests/management/formats/test_catalogue.py::test_error_of_a_text_like_no_format_names_the_formats",
    ),
    Mutant(
        name="aliases may make a small file large",
        file="management/formats/parsing.py",
        text="elif values + size.values > _VALUES_MAX:",
        becomes="elif False:",
        found_by="tests/management/formats/test_document.py::test_aliases_count_as_copies",
    ),
    Mutant(
        name="a custom role that denies is read as one that allows",
        file="management/formats/julie_roles.py",
        text="if ascii_upper(permission_type) != PermissionType.ALLOW.name:",
        becomes="if False:",
        found_by="tests/management/formats/test_julie.py::test_fault_is_named_with_its_place",
    ),
    Mutant(
        name="a KafkaUser may have the name of all principals",
        file="management/formats/strimzi.py",
        text="    if not _is_kubernetes_name(name):",
        becomes="    if False:",
        found_by="tests/management/formats/test_strimzi.py::test_fault_is_named_with_its_place",
    ),
    Mutant(
        name="KafkaUsers of two clusters are read as one",
        file="management/formats/strimzi.py",
        text="        if value != present:",
        becomes="        if False:",
        found_by="tests/management/formats/test_strimzi.py::test_users_of_two_clusters_are_rejected",
    ),
    Mutant(
        name="one KafkaUser is written for two principals",
        file="management/formats/strimzi.py",
        text='if is_certificate and f"User:{name}" in plain:',
        becomes="if False:",
        found_by=_LOSSES,
    ),
    Mutant(
        name="a topology manages principals whose roles it does not know",
        file="management/formats/julie.py",
        text="sorted(topology.principals - topology.uncertain)",
        becomes="sorted(topology.principals)",
        found_by="tests/management/formats/test_julie.py::"
        "test_principals_with_unknown_access_are_not_in_the_scope",
    ),
    Mutant(
        name="an expression of Terraform is read as a name",
        file="management/formats/terraform_values.py",
        text='if _BEGINNING.search(_ESCAPED.sub("-", text)):',
        becomes="if False:",
        found_by="tests/management/formats/test_terraform.py::test_fault_is_named_with_its_place",
    ),
    *(
        Mutant(
            name=f"{what} is passed over without a loss",
            file="management/formats/terraform_values.py",
            text=text,
            becomes=becomes,
            found_by="tests/management/formats/test_terraform.py"
            "::test_other_resources_that_grant_access_are_losses",
        )
        for what, text, becomes in (
            (
                "access by a type of another provider",
                "if _PRODUCTS.search(resource_type)",
                "if False",
            ),
            ("access inside another resource", "_list_access(values)", "()"),
            ("a KafkaUser in a manifest", "(_MANIFEST in text and", "(False and"),
        )
    ),
    Mutant(
        name="a plan that leaves changes out is read like a whole one",
        file="management/formats/terraform.py",
        text='if document.get("complete") is False:',
        becomes="if False:",
        found_by="tests/management/formats/test_terraform.py"
        "::test_plan_that_leaves_changes_out_has_a_loss",
    ),
    Mutant(
        name="a listing is written with lines that could be read as other ACLs",
        file="management/formats/listing.py",
        text='if f"{acl.principal}{_HOST}{acl.host}".split(_HOST) != [acl.principal, acl.host]:',
        becomes="if False:",
        found_by=_LOSSES,
    ),
    Mutant(
        name="an error of Python for a YAML value passes",
        file="management/formats/parsing.py",
        text="        except (ValueError, LookupError, AttributeError):\n",
        becomes="        except RecursionError:\n",
        found_by="tests/management/formats/test_document.py::test_unreadable_text_is_named_with_its_line",
    ),
    Mutant(
        name="an error shows Python's text about binary data in YAML",
        file="management/formats/parsing.py",
        text="node.tag == _BINARY_TAG and not str(node.value).isascii()",
        becomes="False",
        found_by="tests/management/formats/test_document.py::test_unreadable_text_is_named_with_its_line",
    ),
    Mutant(
        name="a merge key replaces what a mapping says itself",
        file="management/formats/parsing.py",
        text="node.value = list({**merged, **own}.values())",
        becomes="node.value = list({**own, **merged}.values())",
        found_by="tests/management/formats/test_document.py::"
        "test_merge_keys_stand_for_keys_that_are_not_there",
    ),
    Mutant(
        name="merge keys are read for a tool that does not read them",
        file="management/formats/parsing.py",
        text="            if not self.merges:",
        becomes="            if False:",
        found_by="tests/management/formats/test_document.py::test_unreadable_text_is_named_with_its_line",
    ),
    Mutant(
        name="an old line of a listing with two readings is read as one of them",
        file="management/formats/old_listing.py",
        text="    if len(found) > 1:",
        becomes="    if False:",
        found_by="tests/management/formats/test_listing.py::"
        "test_old_or_mixed_line_with_no_single_reading_is_an_error",
    ),
    Mutant(
        name="the name of an old pattern is read as its type",
        file="management/formats/old_listing.py",
        text="        if self._without_type and self._typed_place is not None:",
        becomes="        if False:",
        found_by="tests/management/formats/test_listing.py::"
        "test_old_or_mixed_line_with_no_single_reading_is_an_error",
    ),
    Mutant(
        name="remains of a listing are passed over as lines of a log",
        file="management/formats/listing.py",
        text="elif has_begun or _IS_LISTED.search(line):",
        becomes="elif has_begun:",
        found_by="tests/management/formats/test_listing.py::"
        "test_old_or_mixed_line_with_no_single_reading_is_an_error",
    ),
    Mutant(
        name="a cell of rpk's table is read from the wrong column",
        file="management/formats/old_listing.py",
        text="        if start and line[start - 1 : start].strip():",
        becomes="        if False:",
        found_by="tests/management/formats/test_listing.py::test_malformed_table_of_rpk_is_an_error",
    ),
    Mutant(
        name="a name in CSV keeps a blank that other tools remove",
        file="management/formats/comma_separated.py",
        text='        elif cell != cell.strip(" \\t"):',
        becomes="        elif False:",
        found_by="tests/management/formats/test_listing.py::test_malformed_csv_is_an_error",
    ),
    Mutant(
        name="a listing of one principal manages all ACLs",
        file="management/formats/listing.py",
        text="return Scope(principals) if principals else None",
        becomes="return None",
        found_by="tests/management/formats/test_listing.py::"
        "test_listing_by_principal_manages_these_principals",
    ),
    Mutant(
        name="a state file without services and users manages all ACLs",
        file="management/formats/gitops.py",
        text="    if not state.is_cloud and state.has_owners:",
        becomes="    if not state.is_cloud:",
        found_by="tests/management/formats/test_gitops.py::test_file_with_topics_only_manages_nothing",
    ),
)
