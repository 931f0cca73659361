#!/bin/bash
# Use the installed daemon under a booted systemd: format, start, ask, scrape, reload, back up, stop.
# Each command and its output go to standard output.
run() {
  echo "# $*"
  "$@" 2>&1
  local code=$?
  [ $code = 0 ] || echo "exit code $code"
}
fetch() {
  python3 - "$@" <<'PYTHON'
import sys, urllib.request
url, *body = sys.argv[1:]
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(url, body[0].encode() if body else None, headers)
with urllib.request.urlopen(request, timeout=30) as answer:
    print(answer.status, answer.read().decode())
PYTHON
}
metrics() { fetch http://127.0.0.1:8182/metrics | grep -E '^(authorizerd_acls |authorizerd_ready|200)'; }

run cat /etc/debian_version
run authorizerd --version | head -n 3 # without the kernel
run runuser -u authorizerd -- authorizerd format --config /etc/authorizerd/server.properties --cluster-id debian
run runuser -u authorizerd -- authorizerd doctor --config /etc/authorizerd/server.properties
run systemctl enable --now authorizerd.service
run systemctl is-active authorizerd.service
run fetch http://127.0.0.1:8182/readyz
run fetch http://127.0.0.1:8181/access/v1/evaluation \
  '{"subject": {"type": "user", "id": "a"}, "action": {"name": "read"}, "resource": {"type": "topic", "id": "t"}}'
run metrics
run systemctl reload authorizerd.service
run systemctl is-active authorizerd.service
# The package stops the daemon before it is replaced, and starts it again.
if [ -e /authorizerd.deb ]; then
  run dpkg -i /authorizerd.deb
  run systemctl is-active authorizerd.service
fi
install -d -o authorizerd -g authorizerd -m 0700 /var/backups/authorizerd
run systemctl start authorizerd-backup.service
run systemctl show --property Result,ExecMainStatus authorizerd-backup.service
run systemctl stop authorizerd.service
run systemctl show --property ActiveState,Result,ExecMainStatus authorizerd.service
run runuser -u authorizerd -- authorizerd check-log /var/lib/authorizerd/log
run systemd-analyze security --no-pager --threshold=20 authorizerd.service | tail -1
run journalctl --no-pager --output cat --unit authorizerd.service

# The first steps of docs/tutorial.md.
mkdir -p /root/.run && cd /root && cp -r /opt/authorizerd/share/authorizerd/example .run/
run authorizerd acls import .run/example/acls.yaml --log-dir .run/example/log --node-id 1
authorizerd serve --config .run/example/server.properties --ready-file .run/ready >/dev/null 2>&1 &
until [ -e .run/ready ]; do sleep 0.1; done
run fetch http://127.0.0.1:8181/access/v1/evaluation \
  '{"subject": {"type": "user", "id": "alice"}, "action": {"name": "read"}, "resource": {"type": "topic", "id": "orders"}, "context": {"host": "192.168.1.20"}}'
run authorizerd acls --list --bootstrap-server 127.0.0.1:9092 --topic orders
kill %1
wait %1

if [ -e /authorizerd.deb ]; then
  run dpkg --verify authorizerd
  run dpkg -r authorizerd
  run test -e /var/lib/authorizerd/log/meta.properties # the log stays
  run test ! -e /opt/authorizerd/lib
fi
