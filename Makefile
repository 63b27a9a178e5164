# Everything here sets itself up on a machine with only python3, pip and make. The environment is made once,
# from the pins in constraints.txt, and made anew only when those or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := $(VENV)/compat
DLT := $(VENV)/dlt
DBT := $(VENV)/dbt
NEXT_DUCKDB := duckdb==2.0.0
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input

# Unset even where the machine sets it: tests start hundreds of processes, and each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo up test check lint types imports unit long simulate compat format dictionary notebook screenshots constraints clean matrix fuzz kills mutants conformance stateful soak proof bench bench-large bench-setup bench-tracking goals

help: ## Say what can be made.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(VENV)/.runtime ## Run it all on this machine: an API server, Prefect, one sync, a first look.
	@$(BIN)/gramhouse demo

up: $(VENV)/.runtime ## Prefect's server with its UI, and the scheduled runs, until Ctrl-C.
	@$(BIN)/gramhouse up

test: check unit ## Everything CI runs: style, types, import arrows, tests.

check: lint types imports ## Style, types and import arrows.

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy --num-workers auto

imports: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev $(DBT)/.made ## The tests alone.
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not long'

long: $(VENV)/.dev ## The tests that take too long for every time.
	$(BIN)/pytest -m long

SEEDS ?= 200
simulate: $(VENV)/.dev ## Nights of faults and crashes on a virtual clock, a story for each of SEEDS seeds.
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

matrix: $(VENV)/.dev ## Every fault at every moment.
	$(BIN)/pytest -q -n auto --dist worksteal tests/faults

FUZZ_EXAMPLES ?= 600
fuzz: $(VENV)/.dev ## Foreign bytes, for longer than every time.
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/pytest -q -n auto --dist worksteal tests/fuzz

kills: $(VENV)/.dev ## Hundreds of real kills at random moments.
	$(BIN)/pytest -q -n auto --dist worksteal tests/e2e/test_e2e_chaos.py

CONFORMANCE_EXAMPLES ?= 300
conformance: $(VENV)/.dev ## The API's description against its sandbox, for longer than every time.
	CONFORMANCE_EXAMPLES=$(CONFORMANCE_EXAMPLES) $(BIN)/pytest -q -n auto --dist worksteal tests/conformance

mutants: $(VENV)/.dev ## Break the code on purpose, and see that the tests notice.
	$(BIN)/python -m tests.mutation

STATEFUL_EXAMPLES ?= 120
stateful: $(VENV)/.dev ## Land, merge, die, resume and publish in any order, for longer than every time.
	STATEFUL_EXAMPLES=$(STATEFUL_EXAMPLES) $(BIN)/pytest -q -m 'not long' tests/stateful

RUNS ?= 1000
FRESH ?= 200
soak: $(VENV)/.dev ## Hundreds of runs of one warehouse: nothing may grow but with its rows.
	$(BIN)/python -m tests.soak --runs $(RUNS) --fresh $(FRESH)

proof: simulate stateful matrix fuzz conformance kills mutants soak ## The long form of everything in docs/reliability.md.

BENCH := $(BIN)/python -m benchmarks
bench: $(VENV)/.bench $(DLT)/.made ## How fast it is, at small sizes, against the fetch alone and dlt; half an hour.
	$(BENCH).cold
	$(BENCH).cold --style spaced
	$(BENCH).again warm
	$(BENCH).again warm --style spaced
	$(BENCH).again nightly --with-dlt
	$(BENCH).again nightly --style spaced
	$(BENCH).again urls --style spaced
	$(BENCH).again counts --style spaced
	$(BENCH).resume
	$(BENCH).startup
	$(BENCH).distance
	$(BENCH).in_flight
	$(BENCH).limits
	$(BENCH).shapes
	$(BENCH).upkeep
	$(BENCH).queries
	$(BENCH).report
	$(BENCH).incremental --accounts 1000
	$(BENCH).large --sizes 40 400 --posts 250 --scanned 20
	$(BENCH).plot
	$(BENCH).goals

BENCH_FOLDER ?= data/bench
FOLDER = --folder '$(BENCH_FOLDER)'
M1 := --accounts 400 --posts 2500
M10 := --accounts 4000 --posts 2500
bench-large: $(VENV)/.bench ## The same at 1M and 10M items, in BENCH_FOLDER; hours, and 20 GB.
	$(BENCH).cold $(M1) --without-dlt $(FOLDER)
	$(BENCH).again warm $(M1) $(FOLDER)
	$(BENCH).again nightly $(M1) $(FOLDER)
	$(BENCH).shapes --items 2000000 --one 1000000 --rounds 1 $(FOLDER)
	$(BENCH).upkeep $(M1) $(FOLDER)
	$(BENCH).queries $(M1) $(FOLDER)
	$(BENCH).report $(M1) $(FOLDER)
	$(BENCH).cold $(M10) --rounds 1 --without-dlt $(FOLDER)
	$(BENCH).large $(FOLDER)
	$(BENCH).upkeep $(M10) $(FOLDER)
	$(BENCH).queries $(M10) $(FOLDER)
	$(BENCH).plot
	$(BENCH).goals

goals: $(VENV)/.runtime ## What `make bench` and `make bench-large` measured last, against what is to be reached.
	@$(BENCH).goals

bench-setup: $(VENV)/.bench $(DLT)/.made ## The environments that benchmarks need.

bench-tracking: $(VENV)/.runtime ## What it costs that Prefect tracks a sync.
	$(BIN)/python -m benchmarks.tracking

compat: $(VENV)/.dev $(COMPAT)/.made ## What this DuckDB writes, the next one reads; it passes the readers' tests, too.
	rm -rf $(COMPAT)/files
	$(BIN)/python -m tests.warehouse.compat make $(COMPAT)/files
	$(COMPAT)/bin/python -m tests.warehouse.compat check $(COMPAT)/files
	$(COMPAT)/bin/python -m pytest -q tests/warehouse/snapshot/test_warehouse_readers.py tests/warehouse/snapshot/test_warehouse_export.py

format: $(VENV)/.dev ## Lay the code out.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dictionary: $(VENV)/.runtime ## Write docs/data-dictionary.md from the declarations.
	$(BIN)/python -c 'from models.tables.dictionary import markdown; print(markdown(), end="")' > docs/data-dictionary.md

notebook: $(VENV)/.dev ## Run docs/notebooks/first-look.ipynb on 28 days of the sandbox, and draw its charts again.
	rm -rf data/notebook && $(BIN)/python -m tests.handoff.days data/notebook
	GRAMHOUSE_SNAPSHOT=data/notebook/analytics.duckdb $(BIN)/python docs/notebooks/run.py docs/notebooks

screenshots: $(VENV)/.runtime ## Photograph Prefect's UI anew for docs/operations.md; needs Chromium.
	@$(BIN)/python docs/screenshots/take.py

constraints: ## Pin anew what pyproject.toml allows.
	rm -rf .pins && $(PYTHON) -m venv .pins
	.pins/bin/python -m pip install --quiet --disable-pip-version-check '.[bench,dev]' 'setuptools>=77'
	.pins/bin/python -m pip freeze --exclude gramhouse > constraints.txt
	.pins/bin/python -m pip list --format freeze | grep '^setuptools==' >> constraints.txt
	rm -rf .pins

clean: ## Remove what was made, the demo's data too.
	rm -rf $(VENV) .pins .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis data/demo

# Some systems ship python3 without the means to make environments; virtualenv brings its own.
$(VENV)/.made:
	@echo "Setting up the environment in $(VENV), once; it takes about a minute."
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install -qq --target .bootstrap virtualenv && \
	  PYTHONPATH=.bootstrap $(PYTHON) -m virtualenv --quiet $(VENV) && rm -rf .bootstrap; }
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml constraints.txt
	@PIP_CONSTRAINT=constraints.txt $(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@PIP_CONSTRAINT=constraints.txt $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	@PIP_CONSTRAINT=constraints.txt $(PIP_INSTALL) --editable '.[bench]'
	@touch $@

# What is measured against has an environment of its own: its pins are not ours.
$(DLT)/.made: $(VENV)/.made benchmarks/dlt-requirements.txt
	@rm -rf $(DLT) && $(BIN)/python -m venv $(DLT) && $(DLT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --requirement benchmarks/dlt-requirements.txt
	@touch $@

# dbt has an environment of its own, too: its pins are not ours. Pinned in full, so nothing is left to resolve.
$(DBT)/.made: $(VENV)/.made docs/dbt/requirements.txt
	@rm -rf $(DBT) && $(BIN)/python -m venv $(DBT) && $(DBT)/bin/python -m pip install -qq --no-deps --no-compile \
	  --only-binary :all: --disable-pip-version-check --no-input --requirement docs/dbt/requirements.txt
	@touch $@

# The same packages but for DuckDB: an environment's own come first on its path.
$(COMPAT)/.made: $(VENV)/.dev
	@rm -rf $(COMPAT) && $(BIN)/python -m venv $(COMPAT) && $(COMPAT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --no-deps '$(NEXT_DUCKDB)'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(COMPAT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gramhouse-dev.pth"
	@touch $@
