"""What to do about a failed request: for each cause, the flag or property to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizerd.kafka_client.errors import Cause, RequestFailedError
from authorizerd.protocol.kafka.error_codes import ErrorCode

_LOG_IN: Final = """\
  sasl.mechanism=SCRAM-SHA-512
  sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="NAME" password="PASSWORD";
"""
_CERTIFICATE_FILE: Final = """\
  ssl.keystore.type=PEM
  ssl.keystore.location=FILE
where the second FILE contains the client's private key and its certificate chain.
"""

ADVICE: Final[Mapping[Cause, str]] = {
    Cause.UNREACHABLE: """\
check that the server runs, and that you named the address of one of its listeners. A server may
also close the connection because security.protocol in the file of --command-config differs from
the listener's.
""",
    Cause.LOG_IN_REQUIRED: f"""\
pass --command-config FILE, where FILE contains the following lines. For a listener with TLS, the
protocol is SASL_SSL; the mechanism may also be PLAIN or SCRAM-SHA-256.
  security.protocol=SASL_PLAINTEXT
{_LOG_IN}""",
    Cause.LOG_IN_UNEXPECTED: """\
the listener has no authentication. In the file of --command-config, change security.protocol:
SASL_PLAINTEXT to PLAINTEXT, or SASL_SSL to SSL.
""",
    Cause.MECHANISM: """\
in the file of --command-config, set sasl.mechanism to one of the enabled mechanisms. This command
supports PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and GSSAPI.
""",
    Cause.CREDENTIALS: """\
in the file of --command-config, check the credentials in sasl.jaas.config. Also check that this
user has credentials for the mechanism in sasl.mechanism. If it is OAUTHBEARER, the server's log may
say why it refuses the token.
""",
    Cause.ISSUER: """\
in the file of --command-config, check sasl.oauthbearer.token.endpoint.url, the client id, its
secret and the scope. The CA of the issuer is in the option ssl.truststore.location of
sasl.jaas.config.
""",
    Cause.TICKET: """\
in the file of --command-config, check keyTab and principal in sasl.jaas.config, and
sasl.kerberos.service.name. Also check the KDC in /etc/krb5.conf.
""",
    Cause.IMPOSTOR: """\
check that --bootstrap-server names the right server. The password was not sent.
""",
    Cause.TLS_REQUIRED: """\
pass --command-config FILE, where FILE contains security.protocol=SSL (SASL_SSL with authentication)
and the following lines. The second FILE contains the certificate of the server's CA.
  ssl.truststore.type=PEM
  ssl.truststore.location=FILE
""",
    Cause.TLS_UNEXPECTED: """\
the listener has no TLS. In the file of --command-config, change security.protocol to the one that
the listener expects, or name another port. Without TLS, others on the network can read passwords.
""",
    Cause.CERTIFICATE_EXPIRED: """\
renew the server's certificate (ssl.keystore.* of its listener), and check the clock of this
machine.
""",
    Cause.UNKNOWN_CA: """\
in the file of --command-config, set ssl.truststore.location (with ssl.truststore.type=PEM or
PKCS12) or ssl.truststore.certificates to the certificate of the CA that issued the server's
certificate. By default, only the system's CAs are trusted.
""",
    Cause.WRONG_HOST: """\
connect to a host that the certificate is for. Otherwise the server needs a certificate for this
host, or its advertised.listeners must name another host. An empty
ssl.endpoint.identification.algorithm disables this check, but then any server with a certificate
of a trusted CA could pose as this one.
""",
    Cause.CERTIFICATE_INVALID: """\
replace the server's certificate (ssl.keystore.* of its listener).
""",
    Cause.CLIENT_CERTIFICATE_REQUIRED: f"""\
pass --command-config FILE, where FILE contains:
{_CERTIFICATE_FILE}""",
    Cause.CLIENT_CERTIFICATE_REJECTED: """\
check the certificate in ssl.keystore.location (or ssl.keystore.certificate.chain): it must be
valid now, and the server's ssl.truststore must contain the CA that issued it.
""",
    Cause.TLS_PARAMETERS: """\
compare ssl.enabled.protocols and ssl.cipher.suites with those of the listener. A server may also
end the handshake in this way if it requires a client certificate: see ssl.keystore.location.
""",
}

_BY_CODE: Final[Mapping[int, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: """\
a controller does not serve this request: name the address of a broker with --bootstrap-server, or
ask the controller with 'authorizerd acls --bootstrap-controller'. If the address is a broker's, its
Kafka is too old: reading ACLs needs Kafka 2.0 or newer.
""",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: """\
--bootstrap-controller needs the address of a controller. Name a broker with --bootstrap-server.
""",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: """\
listing ACLs needs DESCRIBE on the cluster, and changing them needs ALTER. Log in as a user who has
the right (--command-config), or ask a user who may change ACLs to grant it. If this is a daemon
that follows a cluster, do both on a broker of the cluster.
""",
    ErrorCode.AUTHORIZER_NOT_READY: """\
/readyz on the daemon's admin port says why. Ask another daemon, or a broker of the cluster.
""",
}


def advise(error: RequestFailedError) -> str:
    """Return what to do about a failed request, or an empty text if nothing is known."""
    if error.cause is not None:
        return ADVICE[error.cause]
    return _BY_CODE.get(error.error.code, "")
