# Each target does its own set-up: `make run` on a fresh machine needs Python 3.11 and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
LOCKED := --quiet --no-deps --require-hashes
# The frameworks that the adapters are for: heavy, and needed by no other test.
FRAMEWORKS := .venv-adapters
FRAMEWORKS_LOCK := tests/adapters/requirements.lock
UV     ?= uv
COMPILE_ONLY = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
          --no-annotate --constraint constraints.txt
COMPILE = $(COMPILE_ONLY) pyproject.toml --extra daemon --extra mcp --extra postgres --group build

# Every process of a run would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

CHECKS := types format lint contracts generated locked vendored collected

.PHONY: run demo test quick fuzz fuzz-parser fuzz-parser-c hosts adapters packages deb deb-test cluster-demo chaos style check $(CHECKS) rewritten coverage bench opcodes gallery docs lock coverage-of-seeds clean

run: $(READY)
	@$(BIN)/safetyd run $(ARGS)

demo: $(READY)
	@$(BIN)/safetyd demo $(ARGS)

# Three NATS nodes and two daemons, one of which is killed.
cluster-demo: $(READY)
	@$(BIN)/safetyd demo --cluster

test: $(TOOLS)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(CHECKS) rewritten
	@./tests/system-packages
	@./tests/run $(ARGS)

# The inner loop: under a minute, once mypy has its cache.
quick: style
	$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=quick -m 'not large' tests/core $(ARGS)

# Many more examples of every property than a change is judged by.
fuzz: $(TOOLS)
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=fuzz -m hypothesis $(ARGS)

# Texts that try to end the process that parses commands: ten minutes, or ARGS="--seconds 3600".
fuzz-parser: $(TOOLS)
	$(BIN)/python -m tests.core.shell.parser_fuzzing $(ARGS)

# The same for the C code alone, with sanitizers: ARGS="-max_total_time=600".
fuzz-parser-c: $(TOOLS)
	@./tests/fuzz-parser-c $(ARGS)

# Random faults of daemons and nodes under load: ARGS="--seed 7 --rounds 50".
chaos: $(TOOLS)
	$(BIN)/python -m tests.cluster.chaos $(ARGS)

# The real coding agents, installed from npm, with stand-ins for their models: ARGS="-k codex".
# And the clients in other languages: ARGS="-k languages". They need npm, go and nats.go.
hosts: $(TOOLS)
	$(BIN)/python -m pytest -q -m hosts tests/hosts/real $(ARGS)

# Real installs: the commands of the Containerfile, and the wheel with pip, uv and pipx. It prints sizes.
packages: $(TOOLS)
	$(BIN)/python -m pytest -q -s -m packages tests/packages $(ARGS)

# The adapters with the real frameworks, and stand-ins for their models: ARGS="-k langchain".
adapters: $(FRAMEWORKS)/.ready
	$(FRAMEWORKS)/bin/mypy --cache-dir $(FRAMEWORKS)/.mypy_cache safetyd/adapters
	$(FRAMEWORKS)/bin/python -m pytest -q tests/adapters $(ARGS)

# A Debian package in dist/, for the system's Python: ARGS="--python /usr/bin/python3".
deb: $(READY)
	@$(BIN)/python -m deb.build_package $(ARGS)

# Builds the package, installs it in a copy of this machine in memory, runs it and purges it. Needs root.
deb-test: $(TOOLS)
	@./tests/system-packages deb
	$(BIN)/python -m pytest -q -m deb tests/deb $(ARGS)

# Types take longest, and everything else is done beside them.
style: $(TOOLS)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types format lint contracts

check: $(TOOLS)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(CHECKS)

types:
	$(BIN)/mypy

format:
	$(BIN)/ruff format --check

lint:
	$(BIN)/ruff check

contracts:
	$(BIN)/lint-imports

generated:
	$(BIN)/python docs/generate.py --check

locked:
	$(BIN)/python -m tests.locks

vendored:
	$(BIN)/python -m tests.vendored_assets

# Tests that `make test` leaves out can at least be collected, each in the environment of its target.
# That of the adapters may not exist here: then tests/documents/test_locks.py checks its imports.
collected:
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider -m 'hosts or packages or deb' \
		tests/hosts/real tests/packages tests/deb >/dev/null
	@test ! -e $(FRAMEWORKS)/.ready || \
		$(FRAMEWORKS)/bin/python -m pytest --collect-only -qq -p no:cacheprovider tests/adapters >/dev/null

# Whoever imports a test module first rewrites its assertions, which takes longer than all the rest
# of collecting. Done once, no worker of a run does it again. What cannot be imported the run names.
rewritten:
	@$(BIN)/python -m pytest --collect-only -q -p no:cacheprovider >/dev/null || true

# Coverage of everything, with the commands and daemons that tests start. Takes twice as long as the tests.
coverage: $(TOOLS)
	$(BIN)/python -m pytest -q -n 4 --dist loadfile -m 'not alone' --cov --cov-report=term-missing $(ARGS)

# Every kind of message in every place, for people to look at: ARGS="FOLDER NAME".
gallery: $(TOOLS)
	$(BIN)/python -m tests.gallery $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

# The instructions of typical decisions, by function. A test has their limits.
opcodes: $(TOOLS)
	$(BIN)/python -m tests.agents.opcode_counts

docs: $(TOOLS)
	$(BIN)/python docs/generate.py

# After a change of dependencies or of constraints.txt.
lock:
	$(COMPILE) --output-file requirements.lock
	$(COMPILE_ONLY) pyproject.toml --extra server --extra postgres --output-file requirements-server.lock
	$(COMPILE_ONLY) --group build --group sources --output-file requirements-build.lock
	$(COMPILE) --group dev --output-file requirements-dev.lock
	$(COMPILE) --group adapters --extra pydantic-ai --extra langchain --extra openai-agents \
		--extra claude-agent-sdk --output-file $(FRAMEWORKS_LOCK)

coverage-of-seeds: $(READY)
	@$(BIN)/python -m tests.requirements

# Only what has a hash is installed, and what builds safetyd is there before it is built.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "safetyd needs Python 3.11 or newer; set PYTHON=")'
	@echo "Building the environment in $(VENV) (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(LOCKED) --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(TOOLS): $(READY) requirements-dev.lock
	@echo "Adding the tools for development"
	@$(BIN)/python -m pip install $(LOCKED) --requirement requirements-dev.lock
	@touch $@

$(FRAMEWORKS)/.ready: pyproject.toml $(FRAMEWORKS_LOCK)
	@echo "Building the environment with agent frameworks in $(FRAMEWORKS) (about a minute, once)"
	@test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/python -m pip install $(LOCKED) --requirement $(FRAMEWORKS_LOCK)
	@$(FRAMEWORKS)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(FRAMEWORKS) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
