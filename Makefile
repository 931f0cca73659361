# Every target sets up what it needs: on a fresh machine, run `make run` or `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Tests run in two processes per CPU, at most four, or PROCESSES=3. An idle process takes over waiting tests of others.
PARALLEL := -n logical --maxprocesses $(or $(PROCESSES),4) --dist worksteal
REPLAY_TESTS := tests/ops/replay tests/end_to_end/test_replay.py
# Compile tests once, not in every process of every run.
unexport PYTHONDONTWRITEBYTECODE
# Tests may start make; it must not share this make's job server.
unexport MAKEFLAGS
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup setup-dev run run-cluster replay-demo test test-fast test-replay test-whole engines faults stories chaos fuzz soak shadow mutants mutation-score stretches check bench peers conformance releases nightly track-record advisories install-files docs site chart wheel release image clients lock clean

setup: .venv/.setup
setup-dev: .venv/.setup-dev

.venv/.setup: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "authorizerd needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# Python compiles the modules that it imports; pip would compile all, which takes as long as the rest of the set-up.
.venv/.setup-dev: .venv/.setup requirements-dev.lock
	$(INSTALL) --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

.venv/.setup-docs: .venv/.setup requirements-docs.lock
	$(INSTALL) --no-compile --require-hashes -r requirements-docs.lock
	@touch $@

# Environments of their own, for programs and for other releases of a library.
.PRECIOUS: .venv-%/.setup
.venv-%/.setup: requirements-%.lock
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-$*.lock
	@touch $@

# PORT=19092 is the port of the Kafka listener, if 9092 is taken.
run: setup
	@$(BIN)/python -m tools.example $(if $(PORT),--override listeners=PLAINTEXT://127.0.0.1:$(PORT))

# Follow a real Kafka cluster with two daemons until Ctrl-C (with ONCE=1, until an ACL has arrived); needs Java 17 and
# Maven.
run-cluster: setup
	@$(BIN)/python -m tools.example_cluster $(if $(ONCE),--once)

# Replay a real broker's traffic: ingest, whatif, usage, load, report. Needs Java 17.
replay-demo: setup-dev
	@$(BIN)/python -m tools.replay_demo

# Run all tests except conformance tests and all but two of those on Spark, with few random and large inputs.
test: setup-dev
	$(BIN)/pytest $(PARALLEL) -m "$(or $(TESTS),smoke or not replay)"

# Run the tests of the replay pipeline on Spark, in one session. Needs Java 17.
test-replay: setup-dev
	$(BIN)/pytest -m replay $(REPLAY_TESTS)

# Run the same tests with all random and large inputs.
test-whole: setup-dev .venv-release/.setup .venv-gateways/.setup .venv/.setup-ldap
	WHOLE=1 $(BIN)/pytest $(PARALLEL) -m "smoke or not replay"
	WHOLE=1 $(BIN)/pytest -m replay $(REPLAY_TESTS)

# Run the same tests, and those on a cluster, with each release of Spark that the extra allows: SPARK=4.1 chooses one.
# Each is installed, which takes 500 MB, and removed again. Needs Java 17.
spark-versions: $(addprefix spark-,$(or $(SPARK),4.1 4.2)) $(if $(SPARK),,test-replay)
spark-%: setup-dev .venv-spark-%/.setup
	@# Its other packages are those of .venv.
	$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
	  | tee $$(echo .venv-spark-$*/lib/python3*/site-packages)/others.pth
	WHOLE=1 .venv-spark-$*/bin/python -m pytest -m replay $(REPLAY_TESTS)
	.venv-spark-$*/bin/python -m pytest tests/conformance/test_replay_clusters.py
	rm -rf .venv-spark-$*

# Run the tests that start no daemon and take less than a second each.
test-fast: setup-dev
	$(BIN)/pytest $(PARALLEL) -m "not slow"

# Compare both engines of replay, and an oracle, on random sets of ACLs: SETS of them without Spark, and JOBS with whole jobs of Spark.
# Needs Java 17.
engines: setup-dev
	WHOLE=1 REPLAY_SETS=$(or $(SETS),200) REPLAY_JOBS=$(or $(JOBS),20) \
	  $(BIN)/pytest tests/ops/replay/local/test_engines_agree.py

# Test the log, and the copy of a followed one, on a disk with random crashes and faults; SEED=1234
# sets the random seed.
faults: setup-dev
	$(BIN)/python -m tests.faults --schedules $(or $(SCHEDULES),20000) --seed $(or $(SEED),1)
	$(BIN)/python -m tests.faults --copy --schedules $(or $(SCHEDULES),20000) --seed $(or $(SEED),1)

# Run random stories of the whole daemon on the same disk and a faulty network; compare them with a model.
stories: setup-dev
	$(BIN)/python -m tests.model --stories $(or $(STORIES),3000) --seed $(or $(SEED),1)

# Kill, stop and starve a real daemon with workers, and compare all answers with its log; MINUTES=5,
# SEED=1234 and FAULTS=SIGSTOP,disk choose what happens. WORKERS=1 runs no workers. With SOURCE=quorum or brokers, the
# daemon follows a real cluster, which it changes with WRITES=as-self or forward.
chaos: setup-dev
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),5) --seed $(or $(SEED),1) \
	  $(if $(FAULTS),--faults "$(FAULTS)") $(if $(SOURCE),--source $(SOURCE)) \
	  $(if $(WRITES),--writes $(WRITES)) $(if $(WORKERS),--workers $(WORKERS))

# Send damaged and invented inputs to every reader of bytes and text; INPUTS=1000000 and SECONDS=600
# limit the run, TARGETS=opa,stream chooses readers, SEED=1234 sets the random seed.
fuzz: setup-dev
	$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),10000000) --seed $(or $(SEED),1) \
	  $(if $(SECONDS),--seconds $(SECONDS)) $(if $(TARGETS),--targets $(TARGETS))

# Run `verify --follow` beside a cluster that is disturbed: each line must count once. Needs Maven and Prometheus.
shadow: setup-dev
	$(BIN)/python -m tests.shadow --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

# Run real daemons under mixed load while they are disturbed: no answer may be wrong, and nothing may grow.
soak: setup-dev
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) \
	  --writes $(or $(WRITES),as-self)

# Break one guard at a time in a copy, and run the test that must fail.
mutants: setup-dev
	$(BIN)/python -m tests.mutants

# Make random changes to modules in a copy, and print the share that the modules' own tests catch. PATHS="acl tls"
# chooses modules or folders, CHANGES=10 how many for each module (0: all), SEED=1234 which; .run/mutation-score.json
# has the scores.
mutation-score: setup-dev .venv-mutation/.setup
	$(BIN)/python -m tests.mutants.score --changes $(or $(CHANGES),10) --seed $(or $(SEED),1) $(PATHS)

# Measure how long each kind of request blocks the event loop, for every kind of caller.
stretches: setup-dev
	WHOLE=1 $(BIN)/python -m tests.loop --whole --repeats $(or $(REPEATS),3)

# The library for directories: it is built from its sources, with libldap2-dev and libsasl2-dev.
.venv/.setup-ldap: .venv/.setup-dev requirements-ldap.lock
	$(INSTALL) --require-hashes --no-build-isolation -r requirements-ldap.lock
	@touch $@

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Run the benchmark with every installed peer. PARTS=http,stream measures only these parts.
bench: setup-dev
	$(BIN)/python -m tools.bench $(if $(PARTS),--parts $(PARTS))

# Build the benchmark's peers from source; needs Go 1.26, and takes several minutes the first time.
peers:
	GOBIN=$(CURDIR)/.run/peers go install github.com/open-policy-agent/opa@v1.22.2
	GOBIN=$(CURDIR)/.run/peers go install github.com/openfga/openfga/cmd/openfga@v1.22.1

# Compare with the real Kafka, and run jobs on a Spark cluster and by Airflow; needs Java and Maven. SEED=1234 repeats a
# run's random cases, WRITE=1 writes the matrix of admin clients to docs/conformance.md.
conformance: setup-dev .venv-airflow/.setup
	$(BIN)/pytest tests/conformance $(if $(SEED),--seed $(SEED)) $(if $(WRITE),--write-matrix)

# Compare our decisions with those of each Kafka release since 3.9, on random questions, and follow a cluster
# of each; needs Java and Maven. SEED=1234 sets the random seed, VERSIONS=4.3.1,4.4.0 chooses releases,
# WRITE=1 writes the table in docs/conformance.md.
releases: setup-dev
	$(BIN)/python -m tests.releases --questions $(or $(QUESTIONS),1000000) --seed $(or $(SEED),1) \
	  $(if $(VERSIONS),--versions $(VERSIONS)) $(if $(WRITE),--write)

# Run all long tests one after the other, for about seven hours. PARTS="stories soak" runs only these.
nightly:
	.ci/nightly $(PARTS)

# Add the runs of nights to docs/track-record.md: those of this machine, and those of .run/nights/*/runs.jsonl.
track-record: setup-dev
	$(BIN)/python -m tests.track_record $(wildcard .run/nightly/runs.jsonl .run/nights/*/runs.jsonl)

# Look for known vulnerabilities in the libraries that are installed with the daemon.
advisories: .venv-release/.setup
	.venv-release/bin/pip-audit --disable-pip --require-hashes --strict -r requirements.lock -r requirements-kerberos.lock -r requirements-ldap.lock

# Render the chart as ops/container/kubernetes.yaml, for kubectl; needs helm (HELM=… sets its path).
HELM ?= helm
KUBERNETES := 1.31.0
chart:
	$(HELM) lint --strict --kube-version $(KUBERNETES) ops/helm
	(echo '# Written by `make chart` from ops/helm; `authorizerd docs container` says how to use it.'; \
	  $(HELM) template authorizerd ops/helm --kube-version $(KUBERNETES) --namespace authorizerd \
	  --values ops/helm/ci/all-values.yaml) > ops/container/kubernetes.yaml

# Write the files that wheels install but git does not keep: manual page, completions, dashboard.
install-files: setup-dev
	$(BIN)/python -m tools.install_files

# Build the documentation site in .run/site; a broken link or anchor is an error.
docs: .venv/.setup-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "built .run/site; to read it: $(BIN)/python -m mkdocs serve"

# Add the site of a VERSION to the branch gh-pages, as `latest`; SITE_URL is the address at which it will be.
site: .venv/.setup-docs
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. PATH=$(CURDIR)/$(BIN):$$PATH mike deploy --update-aliases $(VERSION) latest
	PYTHONPATH=. $(BIN)/mike set-default latest

# Build the wheel that ops/systemd/README.md installs; root then builds nothing in this directory.
wheel: install-files
	@rm -rf build dist/authorizerd-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist .
	@ls dist/authorizerd-*.whl

# Build a version's artifacts into dist/VERSION; RELEASING.md lists them. The commit needs the version's tag; UNTAGGED=1
# is a trial without it, and without what a program builds that is not installed.
release: .venv-release/.setup setup-dev
	@HELM=$(HELM) .venv-release/bin/python -m tools.release $(if $(UNTAGGED),--untagged)

# Build the container image with buildah; syft, if installed, lists its contents.
image:
	ops/container/build.sh

# Build the client libraries: a wheel, a tarball if npm is installed, and a jar if javac is.
clients: setup
	@rm -rf clients/python/build
	$(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist ./clients/python
	$(BIN)/python -m tools.mirror_wheel dist
	@if command -v npm >/dev/null; then cd clients/javascript && npm pack --silent --pack-destination ../../dist; \
	  else echo 'npm is not installed: the JavaScript client is not built'; fi
	@if command -v javac >/dev/null; then $(BIN)/python -m tools.release.jar dist; \
	  else echo 'javac is not installed: the Java client is not built'; fi
	@ls dist/authorizerd_client-*.whl dist/authorizerd_mirror-*.whl

# Regenerate the lock files; needs uv. The libraries that two environments share have one version.
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command 'make lock'
lock:
	$(COMPILE) --output-file requirements.lock requirements.in
	for name in dev release mutation; do \
	  $(COMPILE) --constraint requirements.lock --output-file requirements-$$name.lock requirements-$$name.in || exit; done
	for name in docs kerberos ldap; do \
	  $(COMPILE) --constraint requirements-dev.lock --output-file requirements-$$name.lock requirements-$$name.in || exit; done
	for name in airflow gateways spark-4.1 spark-4.2; do \
	  $(COMPILE) --output-file requirements-$$name.lock requirements-$$name.in || exit; done

clean:
	rm -rf clients/python/build clients/python/src/*.egg-info
	rm -rf .venv .venv-* .run build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
