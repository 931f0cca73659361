#!/bin/sh
# Install the wheel in a Debian root, as ops/systemd/README.md says, but without network.
# It runs in a chroot; /wheels has the wheel and its dependencies.
set -eu
python3 -m venv /opt/authorizerd
/opt/authorizerd/bin/pip install --quiet --no-index --no-deps /wheels/authorizerd-*.whl
/opt/authorizerd/bin/pip install --quiet --no-index --find-links /wheels --require-hashes -r /opt/authorizerd/share/authorizerd/requirements.lock
ln -s /opt/authorizerd/bin/authorizerd /usr/local/bin/
cd /opt/authorizerd/share/authorizerd/systemd
install -m 0644 authorizerd.service authorizerd-backup.service authorizerd-backup.timer /etc/systemd/system/
install -m 0644 authorizerd.sysusers.conf /usr/lib/sysusers.d/authorizerd.conf
install -m 0644 authorizerd.tmpfiles.conf /usr/lib/tmpfiles.d/authorizerd.conf
systemd-sysusers authorizerd.conf
systemd-tmpfiles --create authorizerd.conf
install -o root -g authorizerd -m 0640 environment server.properties /etc/authorizerd/
