# Each target does its own set-up: `make run` on a fresh machine needs Python 3.11 and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
LOCKED := --quiet --no-deps --require-hashes
UV     ?= uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
          --no-annotate --constraint constraints.txt pyproject.toml --extra daemon --group build

.PHONY: run demo test check bench docs lock coverage-of-seeds clean

run: $(READY)
	@$(BIN)/safetyd run $(ARGS)

demo: $(READY)
	@$(BIN)/safetyd demo $(ARGS)

test: check
	@./tests/system-packages
	$(BIN)/python -m pytest --cov --cov-report= --cov-fail-under=0 -m 'not alone' -n 2 --dist loadfile $(ARGS)
	$(BIN)/python -m pytest --cov --cov-append --cov-report=term -m alone $(ARGS)
	$(BIN)/coverage report --include='safetyd/core/*' --fail-under=100

check: $(TOOLS)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m tests.locks

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(TOOLS)
	$(BIN)/python docs/generate.py

# After a change of dependencies or of constraints.txt.
lock:
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --group dev --output-file requirements-dev.lock

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

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
