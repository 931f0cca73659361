// TLS between a client and the daemon: the connection, and the reason if there is none.
//
// Invariant: nothing is sent before the daemon's certificate has passed Node's checks.

import { connect, createSecureContext } from "node:tls";

import { ConnectionLostError, TlsError } from "./errors.js";

const UNKNOWN_CA =
  "the daemon's certificate was issued by an unknown CA: load the CA's certificate with the " +
  "option tls.ca";
// What is wrong with the daemon's certificate, by the codes of Node's errors.
const CERTIFICATE_FAULTS = new Map([
  [
    "CERT_NOT_YET_VALID",
    "the daemon's certificate is not valid yet: compare the clocks of both machines",
  ],
  [
    "CERT_HAS_EXPIRED",
    "the daemon's certificate, or that of its CA, has expired: renew it, or correct this " +
      "machine's clock",
  ],
  [
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "the daemon's certificate is self-signed: to trust it, load it with the option tls.ca",
  ],
  ["SELF_SIGNED_CERT_IN_CHAIN", UNKNOWN_CA],
  ["UNABLE_TO_GET_ISSUER_CERT", UNKNOWN_CA],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", UNKNOWN_CA],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", UNKNOWN_CA],
]);
const NEEDS_CERTIFICATE =
  "load the client's certificate and key with the options tls.cert and tls.key";
// Why the daemon refuses the client, by OpenSSL's names of the alerts.
const ALERTS = new Map([
  ["certificate required", `the daemon requires a client certificate: ${NEEDS_CERTIFICATE}`],
  [
    "handshake failure",
    `the daemon refused the handshake: it requires a client certificate (${NEEDS_CERTIFICATE}), ` +
      "or it shares no cipher suite with this client",
  ],
  [
    "unknown ca",
    "the daemon does not know the CA of the client certificate: use a certificate of a CA in " +
      "the daemon's truststore",
  ],
  ["certificate expired", "the client certificate has expired: renew it"],
  ["certificate revoked", "the client certificate was revoked by its CA: replace it"],
  [
    "protocol version",
    "the daemon and this client have no TLS version in common: check the daemon's " +
      "ssl.enabled.protocols and the options tls.minVersion and tls.maxVersion",
  ],
]);

/**
 * The TLS of one client.
 *
 * Until the daemon has answered once, a connection that it closes is a TlsError: one of the two is
 * probably misconfigured, so trying again would only hide the reason. Afterwards, such a connection
 * is lost like any other, for instance because the daemon restarts.
 */
export class TlsEndpoint {
  hasAnswered = false;
  #host;
  #options;

  /** Throws what Node throws for invalid certificates and keys. */
  constructor(place, options) {
    const secureContext = options.secureContext ?? createSecureContext(options);
    this.#host = options.servername ?? place.host;
    this.#options = { ...options, ...place, secureContext };
  }

  /** Return a new socket, which emits "secureConnect" once the daemon may be trusted. */
  connect() {
    return connect(this.#options);
  }

  /** Return the error for a socket's error before the daemon has answered the hello. */
  newError(error, isEstablished) {
    const message = this.#explain(error);
    if (message) return new TlsError(message, { cause: error });
    if (error.code === "ECONNRESET" || error.code === "EPIPE") {
      return this.newClosedError(isEstablished);
    }
    return new ConnectionLostError(`the connection broke: ${error.message}`);
  }

  /** Return the error for a connection that the daemon has closed. */
  newClosedError(isEstablished) {
    if (this.hasAnswered) return new ConnectionLostError("the daemon closed the connection");
    if (isEstablished) {
      return new TlsError(
        "the daemon closed the connection after the handshake: it may require another client " +
          "certificate; its log has the reason",
      );
    }
    return new TlsError(
      "the daemon closed the connection during the handshake: it may not speak TLS at this " +
        "address (then use tcp://HOST:PORT), or refuse the connection; its log has the reason",
    );
  }

  /** Return the reason and the remedy, or null if TLS is not the reason. */
  #explain(error) {
    const { code = "", message } = error;
    if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
      return (
        `the daemon's certificate is not valid for '${this.#host}': connect to a name in the ` +
        "certificate, or issue a certificate with this name"
      );
    }
    if (CERTIFICATE_FAULTS.has(code)) return CERTIFICATE_FAULTS.get(code);
    if (/:(wrong version number|unknown protocol|packet length too long):/.test(message)) {
      return "the daemon does not speak TLS at this address: use tcp://HOST:PORT";
    }
    const alert = /:[^:]* alert ([^:]+):/.exec(message)?.[1];
    if (alert !== undefined) {
      return (
        ALERTS.get(alert) ?? `the daemon refused the handshake (${alert}): its log has the reason`
      );
    }
    // Node gives certificates that OpenSSL rejects the names of OpenSSL's codes.
    const isTls = code === "EPROTO" || /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|INVALID_)/.test(code);
    return isTls ? `the TLS handshake failed: ${message.trim()}` : null;
  }
}
