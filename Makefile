# Everything is stored in .venv/ and ~/.fairpost/. To start over, delete both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
STAMP := $(VENV)/.tools
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

# The tests start hundreds of Fairpost processes. Without Python's bytecode cache, each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup up test record check lint types bench peers fuzz attack mutants chaos world matrix screenshots

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ —/'

setup: $(STAMP)  ## create .venv/ with Fairpost and its tools

# Rebuilt only when the dependencies change; the package itself is installed in place.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Fairpost needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try: make PYTHON=python3.12 $(MAKECMDGOALS)" if sys.version_info < (3, 11) else 0)'
	@echo "Installing Fairpost in $(VENV)/ (once; about a minute) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) -e '.[local]'
	@touch $@

$(STAMP): $(INSTALLED)
	@echo "Installing the tools for tests in $(VENV)/ (once; about a minute) …"
	@$(PIP) --group dev
	@$(BIN)/python -m pytest --collect-only -q >/dev/null || true  # compiled once here, instead of by all test processes at the same time
	@$(BIN)/python -c 'from hypothesis.strategies import text; text().validate()'  # caches the characters that UTF-8 can encode: takes 3 s
	@touch $@

up: $(INSTALLED)  ## start everything with a live demonstration
	@$(BIN)/fairpost up

# The tests run in several processes. tests/conftest.py decides how many, and which tests stay together. ARGS=-n0 uses one process, -n2 two.
test: $(STAMP)  ## run all tests (some: ARGS='tests/cli -k pause')
	@$(BIN)/python -m pytest -n auto $(ARGS)

record: $(STAMP)  ## run all tests, and record their CPU time in tests/recorded.json
	@FAIRPOST_TEST_RECORD=1 $(BIN)/python -m pytest -n auto

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/oxlint --quiet src/fairpost/api/static

types: $(STAMP)
	@$(BIN)/mypy

peers: $(STAMP)  ## fetch real mail servers and a browser for the tests (optional; needs apt-get)
	@$(BIN)/python tests/peers/fetch.py

screenshots: $(STAMP) peers  ## update docs/screenshots/ (some: ARGS=sign-in)
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

CHAOS_KILLS ?= 300
CHAOS_POSTGRES_KILLS ?= 15

chaos: $(STAMP) peers  ## kill workers, engines and PostgreSQL CHAOS_KILLS times, with one and with three accounts per process, and check that nothing is lost or repeated
	@FAIRPOST_CHAOS_KILLS=$(CHAOS_KILLS) FAIRPOST_CHAOS_POSTGRES_KILLS=$(CHAOS_POSTGRES_KILLS) $(BIN)/python -m pytest tests/chaos --timeout 3600 -o faulthandler_timeout=3660 $(ARGS)

world: $(STAMP)  ## run real engines against every provider of the zoo on real sockets (some: ARGS='--only greylisting')
	@$(BIN)/python -m tests.world $(ARGS)

FUZZ_S ?= 60
FUZZ_TIMES ?= 6
FUZZ_SIGNED ?= 100000

fuzz: $(STAMP)  ## try FUZZ_TIMES as many random examples, and fuzz the SMTP parser for FUZZ_S seconds
	@FAIRPOST_THOROUGH=$(FUZZ_TIMES) FAIRPOST_DKIM_MESSAGES=$(FUZZ_SIGNED) FAIRPOST_SEQUENCE_PEOPLE=1000 $(BIN)/python -m pytest -n auto -m 'thorough or hypothesis' --timeout 3600 -o faulthandler_timeout=3660 $(ARGS)
	@$(PIP) --group fuzz
	@PYTHONPATH=. $(BIN)/python tests/smtp/fuzz_wire.py -max_total_time=$(FUZZ_S) -max_len=4096 -dict=tests/smtp/wire.dict -timeout=10 -rss_limit_mb=1024 -close_fd_mask=1

attack: $(STAMP)  ## attack the isolation between callers with ten times as many attempts (some: ARGS='-k forged')
	@FAIRPOST_THOROUGH=10 $(BIN)/python -m pytest -n auto -m attack --timeout 3600 -o faulthandler_timeout=3660 $(ARGS)

matrix: $(STAMP)  ## run the tests that touch SQL on PostgreSQL 14 to 18 (quicker: ARGS=--quick)
	@$(BIN)/python -m tests.matrix $(ARGS)

mutants: $(STAMP)  ## introduce bugs into a copy of the core and check that the tests catch each one (some: ARGS='--only lease')
	@$(BIN)/python -m tests.mutants $(ARGS)

check: lint types peers test  ## run the linters, the type checker and all tests, as CI does

bench: $(STAMP) peers  ## run the benchmarks, and print and record their figures (some: ARGS="send enqueue")
	@$(BIN)/python benchmarks/core.py $(ARGS)
