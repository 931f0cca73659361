"""Kafka's names of all its APIs, as its audit log prints them.

Source: Kafka 3.9 ApiKeys, which has the APIs that 4.0 removed; Kafka 4.4 ApiKeys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMES: Final = """
    Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata
    ControlledShutdown OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup
    SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics
    DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn
    EndTxn WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs
    AlterConfigs AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate CreatePartitions
    CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
    DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
    ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas
    DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
    EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot
    DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker
    DescribeTransactions ListTransactions AllocateProducerIds ConsumerGroupHeartbeat
    ConsumerGroupDescribe ControllerRegistration GetTelemetrySubscriptions PushTelemetry
    AssignReplicasToDirs ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat
    ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter
    UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState
    DeleteShareGroupState ReadShareGroupStateSummary StreamsGroupHeartbeat
    StreamsGroupDescribe DescribeShareGroupOffsets AlterShareGroupOffsets
    DeleteShareGroupOffsets StreamsGroupTopologyDescriptionUpdate UnregisterController
"""
API_NAMES: Final[Mapping[int, str]] = dict(enumerate(_NAMES.split()))
"""Names by API keys."""
