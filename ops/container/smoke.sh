#!/bin/sh
# Test an image as a container runtime would run it: the daemon as process 1 and user 10001, with a
# read-only root, in new namespaces. Needs root, buildah and unshare, but no container engine.
#
#   ops/container/smoke.sh localhost/authorizerd:latest
#
# BUILDAH may contain options: BUILDAH="buildah --root /tmp/storage".
set -eu
image=${1:?the name of an image}
buildah=${BUILDAH:-buildah}
here=$(dirname "$(readlink -f "$0")")
data=$(mktemp -d)
daemon=
container=$($buildah from --pull-never "$image")
finish() {
    [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || :
    $buildah umount "$container" >/dev/null
    $buildah rm "$container" >/dev/null
    rm -rf "$data"
}
trap finish EXIT
root=$($buildah mount "$container")

fail() { echo "smoke: $1" >&2; exit 1; }

# Run a command of the image in new namespaces, with the data and a read-only root.
within_new() {
    exec unshare --mount --pid --net --ipc --uts --fork --kill-child sh -euc '
        root=$1 data=$2; shift 2
        ip link set lo up
        mount --bind "$root" "$root"
        mount --bind "$data" "$root/var/lib/authorizerd"
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        mount -o remount,bind,ro "$root"
        exec setpriv --no-new-privs chroot --userspec=10001:10001 "$root" "$@"
    ' sh "$root" "$data" "$@"
}
# Run the image's Python in the namespaces of the daemon.
beside() {
    nsenter --target "$process" --mount --pid --net \
        chroot --userspec=10001:10001 "$root" /opt/authorizerd/bin/python -I "$@"
}
prepare() (
    within_new /opt/authorizerd/bin/python -I -m authorizerd.container.prepare \
        --config /var/lib/authorizerd/server.properties \
        /var/lib/authorizerd/parts/server.properties /var/lib/authorizerd/parts/listener.properties
)

mkdir "$data/parts"
sed 's#/run/secrets/tokens#/var/lib/authorizerd/parts/tokens#' "$here/config/server.properties" \
    >"$data/parts/server.properties"
cat >"$data/parts/listener.properties" <<'PART'
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="only-for-this-test";
PART
chown -R 10001:10001 "$data"
token=$( (within_new /opt/authorizerd/bin/authorizerd token --principal User:proxy \
    --append /var/lib/authorizerd/parts/tokens) )

prepare | grep -q '^Formatted ' || fail "an empty log directory was not formatted"
[ "$(stat -c %a "$data/server.properties")" = 600 ] || fail "other users can read the configuration"
[ -z "$(prepare)" ] || fail "prepare printed something for an existing log"

(within_new /opt/authorizerd/bin/authorizerd serve \
    --config /var/lib/authorizerd/server.properties >"$data/audit" 2>"$data/said") &
daemon=$!
tries=0
until process=$(pgrep -P "$daemon") && beside -m authorizerd.container.probe /readyz >"$data/probe" 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { cat "$data/said" "$data/probe" >&2; fail "not ready"; }
    sleep 0.1
done
grep -q '^ready: 0 ACLs' "$data/probe" || fail "expected the probe to print ready, found: $(cat "$data/probe")"
[ "$(stat -c %u "/proc/$process")" = 10001 ] || fail "the daemon does not run as user 10001"
awk '$1 == "NSpid:" { exit $NF != 1 }' "/proc/$process/status" || fail "the daemon is not process 1"
awk '$1 == "CapEff:" { exit $2 !~ /^0+$/ }' "/proc/$process/status" || fail "the daemon has capabilities"
beside -c 'import os; assert os.statvfs("/").f_flag & os.ST_RDONLY' || fail "the root file system is writable"

beside -c '
import json, sys
from http.client import HTTPConnection
from authorizerd.container.probe import ADMIN
question = json.dumps({
    "subject": {"type": "user", "id": "proxy"}, "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
})
def asked(headers):
    connection = HTTPConnection("127.0.0.1:8181", timeout=10)
    connection.request("POST", "/access/v1/evaluation", question,
                       {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    return response.status, response.read()
assert asked({})[0] == 401, "the daemon answers callers without a token"
status, body = asked({"Authorization": "Bearer " + sys.argv[1]})
assert status == 200 and json.loads(body)["decision"] is False, (status, body)
' "$token" || fail "a decision is wrong"

beside -c '
from http.client import HTTPConnection
for path, expected in (("/metrics", b"authorizerd_acls 0.0"), ("/readyz", b"ready: 0 ACLs")):
    connection = HTTPConnection("127.0.0.1:9182", timeout=10)
    connection.request("GET", path)
    assert expected in connection.getresponse().read()
' || fail "the metrics are not served"

kill -TERM "$process"
code=0
wait "$daemon" || code=$?
daemon=
[ "$code" = 0 ] || { cat "$data/said" >&2; fail "after SIGTERM the daemon exited with $code"; }
grep -q '"principal"' "$data/audit" || fail "the audit log has no line for the decision"
echo "smoke: $image passed"
