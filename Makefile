# Two commands do everything on a fresh machine with Python 3.11 and pip: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup demo test check unit mutants fuzz bench clean

setup: .venv/core

demo: setup
	$(BIN)/plant demo

# What is fetched is fetched side by side, and the linters run beside the tests: one core waits for the other otherwise.
test:
	$(MAKE) -j2 .venv/dev tools
	$(MAKE) -j2 check unit

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Small wrong changes to the core, one at a time: prints those that no test notices, fails below nine tenths.
mutants: .venv/dev
	$(BIN)/python -m tests.mutants

# 10,200 generated bad inputs over all verbs and loaders, then kills and full disks (half an hour of one core)
fuzz: .venv/dev
	PLANT_FUZZ=850 $(BIN)/python -m pytest -n 2 --timeout 3000 tests/fuzz/test_fuzz.py
	$(BIN)/python -m pytest -m slow --timeout 3000 tests/fuzz

bench: .venv/dev
	for program in benchmarks/[a-z]*.py; do $(BIN)/python $$program || exit 1; done

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e '.[serve]'
	touch $@

# --no-compile, since the tests import few of the many files that pip would compile
.venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --no-compile -e '.[dev]'
	touch .venv/core $@

.PHONY: tools
tools: browser database

# The report and the desk are looked at in a real browser, the desk by axe-core too; without chromium (and without apt),
# or without npm, those tests are skipped.
AXE := build/npm/node_modules/axe-core/axe.min.js
.PHONY: browser
browser:
	@command -v chromium >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "no chromium here: the browser tests will be skipped"
	@test -f $(AXE) || { command -v npm >/dev/null && \
	    npm install --prefix build/npm --no-save --no-audit --no-fund --silent axe-core@4.10.3; } || \
	  echo "no npm or no network here: the desk will not be looked at by axe-core"

# The desk's store is tested over a real PostgreSQL server, which the tests start; without it those are skipped.
.PHONY: database
database: browser  # since only one of them can have apt at a time
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } || \
	  echo "no PostgreSQL here: the tests of a store in it will be skipped"

clean:
	rm -rf .venv build dist runs
