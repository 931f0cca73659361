// A client of authorizerd's decision stream for Node.js, without dependencies.
//
// Invariant: no failure looks like a permission. `decide` resolves to true only if the daemon
// allowed the question; if there is no decision, it rejects with an AuthorizerdError, and the
// caller denies.

export { Client } from "./lib/client.js";
export * from "./lib/errors.js";
export { watch } from "./lib/watch.js";
