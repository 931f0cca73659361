# Every target sets up what it needs; `make run` and `make test` are all a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup setup-dev run replay-demo test faults stories mutants check bench conformance manual wheel lock clean

setup: .venv/.setup
setup-dev: .venv/.setup-dev

.venv/.setup: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "authorizerd needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.venv/.setup-dev: .venv/.setup requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

run: setup
	@$(BIN)/python -m ops.example

# A real broker's traffic through ingest, whatif, usage and load to a report; needs Java 17.
replay-demo: setup-dev
	@$(BIN)/python -m ops.replay_demo

test: setup-dev
	$(BIN)/pytest

# The log over a disk that crashes and fails, at random; SEED=1234 begins elsewhere.
faults: setup-dev
	$(BIN)/python -m tests.faults --schedules $(or $(SCHEDULES),20000) --seed $(or $(SEED),1)

# The actors over such a disk, in stories drawn at random, held against a model.
stories: setup-dev
	$(BIN)/python -m tests.model --stories $(or $(STORIES),3000) --seed $(or $(SEED),1)

# Breaks one guard after the other in a copy, and runs the test that must notice it.
mutants: setup-dev
	$(BIN)/python -m tests.mutants

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup-dev
	$(BIN)/python -m ops.bench

# Against the real Kafka, where Java and Maven are there; SEED=1234 repeats a run's random cases,
# WRITE=1 keeps the matrix of admin clients in docs/conformance.md.
conformance: setup-dev
	$(BIN)/pytest tests/conformance $(if $(SEED),--seed $(SEED)) $(if $(WRITE),--write-matrix)

# Writes the manual page and the shells' completions anew, from the parsers of the command line.
manual: setup-dev
	$(BIN)/python -m tests.ops.manual

# What ops/systemd/README.md installs, so that root builds nothing in this directory.
wheel: setup
	@rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

# Rewrites both lock files; needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command 'make lock' --output-file requirements.lock requirements.in
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command 'make lock' --constraint requirements.lock \
	  --output-file requirements-dev.lock requirements-dev.in

clean:
	rm -rf .venv .run build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
