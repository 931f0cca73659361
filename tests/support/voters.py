"""Voters records, as kio's own classes write them."""

from uuid import UUID

from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from kio.static.primitive import i16, u16

from authorizerd.protocol.records.voters import Voters
from tests.support.kio_messages import written_by_kio


def voters_value(voters: Voters) -> bytes:
    """Return the value of the control record that names these voters."""
    return written_by_kio(
        VotersRecord(
            version=i16(0),
            voters=tuple(
                Voter(
                    voter_id=BrokerId(node_id),
                    voter_directory_id=UUID(int=7),
                    endpoints=tuple(
                        Endpoint(name=name, host=host, port=u16(port))
                        for name, (host, port) in listeners.items()
                    ),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=i16(0), max_supported_version=i16(1)
                    ),
                )
                for node_id, listeners in voters.items()
            ),
        )
    )
