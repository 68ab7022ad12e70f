# Each target does its own set-up: `make run` on a fresh machine needs Python 3.11 and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools

.PHONY: run demo test check bench docs coverage-of-seeds clean

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

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(TOOLS)
	$(BIN)/python docs/generate.py

coverage-of-seeds: $(READY)
	@$(BIN)/python -m tests.requirements

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "safetyd needs Python 3.11 or newer; set PYTHON=")'
	@echo "Building the environment in $(VENV) (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip >= 25.1'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(TOOLS): $(READY)
	@echo "Adding the tools for development"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
