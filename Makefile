# Every target needs only python3, pip and make. The environment is created once from the pins in constraints.txt,
# and again only when those or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := $(VENV)/compat
DLT := $(VENV)/dlt
DBT := $(VENV)/dbt
NEXT_DUCKDB := duckdb==2.0.1
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --constraint constraints.txt

# Installs this project with extras, $(1), at the pinned versions. uv takes a tenth of pip's time, but does not read
# pip's configuration: pip is used if that names another index, or if uv fails.
define install
@{ ! $(BIN)/python -m pip config list | grep -q '\.index-url' && $(PIP_INSTALL) uv && $(BIN)/python -m uv pip install \
  --quiet --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt --editable '$(1)'; \
  } 2> /dev/null || PIP_CONSTRAINT=constraints.txt $(PIP_INSTALL) --editable '$(1)'
@touch $@
endef

# Cleared, because tests start hundreds of processes, and without bytecode files each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster up dev test check lint types imports unit compiled essential long dist simulate compat format dictionary notebook screenshots constraints clean kills conformance soak proof bench bench-large bench-days bench-setup bench-tracking bench-cluster goals

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(VENV)/.runtime ## Run everything on this machine: a sandbox API, Prefect, syncs of 28 days, a query.
	@$(BIN)/gramhouse demo --days 28

demo-cluster: $(VENV)/.dev ## A sync on two Dask workers of this machine; one worker is killed during it.
	@$(BIN)/python -m tests.e2e.cluster.demo

up: $(VENV)/.runtime ## Prefect server with its UI and the scheduled runs; stop with Ctrl-C.
	@$(BIN)/gramhouse up

dev: $(VENV)/.dev ## Install what development needs, without running tests.

test: $(VENV)/.dev ## Everything CI runs: style, types, import rules, tests.
	+@$(MAKE) --no-print-directory --jobs=2 check compiled
	+@$(MAKE) --no-print-directory unit

check: lint types imports ## Style, types and import rules.

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# `make unit ORDER=--random-order` shuffles, and prints the seed; `ORDER=--random-order-seed=17` repeats an order.
ORDER ?=
unit: $(VENV)/.dev ## Tests only.
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder $(ORDER) -m 'not long'

# Collecting writes the bytecode of the tests and of all that they import. In a new environment, each of pytest's workers
# would compile all of it. What cannot be imported is reported by the tests.
compiled: $(VENV)/.dev
	@$(BIN)/pytest --collect-only -qq > /dev/null || true

# The parts that can differ between Python versions: parsing, asyncio, processes, Prefect, and installed packages.
ESSENTIAL := $(addprefix tests/,models source sandbox buckets flows/config flows/orchestration wheel \
  flows/engine/test_flows_pipeline.py flows/engine/test_flows_dask.py warehouse/test_store_items.py \
  warehouse/snapshot/test_warehouse_snapshot.py security/test_security_dependencies.py e2e/sync/test_e2e_sync.py)
essential: $(VENV)/.dev ## A part of the tests, for a second Python: make essential PYTHON=python3.13 VENV=.venv/3.13
	$(BIN)/pytest -q -n auto --dist loadfile -m 'not long' $(ESSENTIAL)

long: $(VENV)/.dev $(DBT)/.made ## Slow tests, `kills` among them.
	$(BIN)/pytest -n auto --dist worksteal -m long

dist: $(VENV)/.dev ## Build wheel and sdist into dist/ and test the wheel in a separate environment.
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/pytest -q tests/wheel

SEEDS ?= 200
simulate: $(VENV)/.dev ## Simulate days with faults, kills and full disks on a virtual clock, a scenario for each of SEEDS seeds.
	$(BIN)/python -m tests.harness --seeds $(SEEDS)

kills: $(VENV)/.dev ## Kill real processes at random moments, hundreds of times.
	$(BIN)/pytest -q -n auto --dist worksteal tests/e2e/faults/test_e2e_chaos.py

CONFORMANCE_EXAMPLES ?= 300
conformance: $(VENV)/.dev ## Check the sandbox against its OpenAPI description, with more examples than `make unit`.
	CONFORMANCE_EXAMPLES=$(CONFORMANCE_EXAMPLES) $(BIN)/pytest -q -n auto --dist worksteal tests/conformance

RUNS ?= 1000
soak: $(VENV)/.dev ## Hundreds of runs on one warehouse: memory and files must not grow faster than its rows.
	$(BIN)/python -m tests.soak --runs $(RUNS)

proof: long simulate conformance soak ## Long versions of all tests in docs/reliability.md.

BENCH := $(BIN)/python -m benchmarks
bench: $(VENV)/.bench $(DLT)/.made ## Benchmarks at small sizes, compared with plain fetching and dlt; 30 minutes.
	$(BENCH).sync.cold
	$(BENCH).sync.cold --style spaced
	$(BENCH).sync.again warm
	$(BENCH).sync.again warm --style spaced
	$(BENCH).sync.again nightly --with-dlt
	$(BENCH).sync.again nightly --style spaced
	$(BENCH).sync.again urls --style spaced
	$(BENCH).sync.again counts --style spaced
	$(BENCH).sync.cold --style spaced --fetch-times 3
	$(BENCH).sync.again warm --style spaced --fetch-times 3
	$(BENCH).sync.again nightly --style spaced --fetch-times 3
	$(BENCH).sync.again urls --style spaced --fetch-times 3
	$(BENCH).sync.again counts --style spaced --fetch-times 3
	$(BENCH).sync.cold --style keys --accounts 32 --without-dlt
	$(BENCH).sync.again warm --style keys --accounts 32
	$(BENCH).sync.resume
	$(BENCH).sync.startup
	$(BENCH).network.distance
	$(BENCH).network.in_flight
	$(BENCH).network.limits
	$(BENCH).network.limits --key
	$(BENCH).sync.shapes
	$(BENCH).warehouse.upkeep
	$(BENCH).warehouse.queries
	$(BENCH).warehouse.report
	$(BENCH).sync.incremental --accounts 1000
	$(BENCH).warehouse.large --sizes 40 400 --posts 250 --scanned 20
	$(BENCH).plot
	$(BENCH).goals

BENCH_FOLDER ?= data/bench
FOLDER = --folder '$(BENCH_FOLDER)'
M1 := --accounts 400 --posts 2500
M10 := --accounts 4000 --posts 2500
bench-large: $(VENV)/.bench ## Benchmarks with 1M and 10M items in BENCH_FOLDER; about two hours, 20 GB.
	$(BENCH).sync.cold $(M1) --without-dlt $(FOLDER)
	$(BENCH).sync.again warm $(M1) $(FOLDER)
	$(BENCH).sync.again nightly $(M1) $(FOLDER)
	$(BENCH).sync.shapes --items 2000000 --one 1000000 --rounds 1 $(FOLDER)
	$(BENCH).warehouse.upkeep $(M1) $(FOLDER)
	$(BENCH).warehouse.queries $(M1) $(FOLDER)
	$(BENCH).warehouse.report $(M1) $(FOLDER)
	$(BENCH).sync.cold $(M1) --style spaced --fetch-times 3 --without-dlt
	$(BENCH).sync.shapes --items 2000000 --rounds 1 --style spaced --fetch-times 3
	$(BENCH).sync.cold $(M10) --rounds 1 --without-dlt $(FOLDER)
	$(BENCH).sync.cold $(M10) --rounds 1 --style spaced --fetch-times 3 --without-dlt
	$(BENCH).warehouse.large $(FOLDER)
	$(BENCH).warehouse.upkeep $(M10) $(FOLDER)
	$(BENCH).warehouse.queries $(M10) $(FOLDER)
	$(BENCH).warehouse.days $(FOLDER)
	$(BENCH).plot
	$(BENCH).goals

bench-days: $(VENV)/.bench ## A warehouse of 10M items after 100 days; one to three hours.
	$(BENCH).warehouse.days --accounts 5000 $(FOLDER)

goals: $(VENV)/.runtime ## Compare the last benchmark results with their goals.
	@$(BENCH).goals

bench-setup: $(VENV)/.bench $(DLT)/.made ## Create the environments for benchmarks.

bench-tracking: $(VENV)/.runtime ## Measure the overhead of tracking by Prefect.
	$(BENCH).sync.tracking
	$(BENCH).sync.tracking --posts 100

bench-cluster: $(VENV)/.dev ## Compare batches on Dask workers with one process, at two latencies and with a rate limit.
	$(BENCH).cluster.workers
	$(BENCH).cluster.workers --latency 0.2
	$(BENCH).cluster.landing
	$(BENCH).cluster.workers --accounts 40 --posts 1000 --latency 0.005 --per-second 10

compat: $(VENV)/.dev $(COMPAT)/.made ## Check that the next DuckDB version reads our files and passes the readers' tests.
	rm -rf $(COMPAT)/files
	$(BIN)/python -m tests.warehouse.compat make $(COMPAT)/files
	$(COMPAT)/bin/python -m tests.warehouse.compat check $(COMPAT)/files
	$(COMPAT)/bin/python -m pytest -q -W 'ignore:Arrow output on a DB-API result' tests/warehouse/snapshot/test_warehouse_readers.py tests/warehouse/snapshot/test_warehouse_export.py

format: $(VENV)/.dev ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dictionary: $(VENV)/.runtime ## Generate the data dictionary and the table of docs/settings.md from the declarations.
	$(BIN)/python -m tests.dictionary
	$(BIN)/python -m tests.settings_table docs/settings.md

notebook: $(VENV)/.dev ## Run docs/notebooks/first-look.ipynb on 28 days of sandbox data and update its charts.
	rm -rf data/notebook && $(BIN)/python -m tests.handoff.days data/notebook
	GRAMHOUSE_SNAPSHOT=data/notebook/analytics.duckdb $(BIN)/python docs/notebooks/run.py docs/notebooks

screenshots: $(VENV)/.runtime ## Take the screenshots for docs/operations.md again; needs Chromium.
	@$(BIN)/python docs/screenshots/take.py

constraints: ## Update the pins in constraints.txt.
	rm -rf .pins && $(PYTHON) -m venv .pins
	.pins/bin/python -m pip install --quiet --disable-pip-version-check '.[bench,dev]' 'setuptools>=77' uv
	.pins/bin/python -m pip freeze --exclude gramhouse > constraints.txt
	.pins/bin/python -m pip list --format freeze | grep '^setuptools==' >> constraints.txt
	rm -rf .pins

clean: ## Remove generated files, including the demo's data.
	rm -rf $(VENV) .pins .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis data/demo

# Some systems ship python3 without ensurepip; virtualenv brings its own pip.
$(VENV)/.made:
	@echo "Creating the environment in $(VENV); this takes 10 to 60 seconds."
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  $(PYTHON) -m pip install -qq --target .bootstrap virtualenv && \
	  PYTHONPATH=.bootstrap $(PYTHON) -m virtualenv --quiet $(VENV) && rm -rf .bootstrap; }
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml constraints.txt
	$(call install,.)

$(VENV)/.dev: $(VENV)/.runtime
	$(call install,.[dev])

$(VENV)/.bench: $(VENV)/.runtime
	$(call install,.[bench])

# dlt needs a separate environment: its pins conflict with ours.
$(DLT)/.made: $(VENV)/.made benchmarks/candidates/dlt-requirements.txt
	@rm -rf $(DLT) && $(BIN)/python -m venv $(DLT) && $(DLT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --requirement benchmarks/candidates/dlt-requirements.txt
	@touch $@

# dbt needs a separate environment, fully pinned.
$(DBT)/.made: $(VENV)/.made docs/dbt/requirements.txt
	@rm -rf $(DBT) && $(BIN)/python -m venv $(DBT) && $(DBT)/bin/python -m pip install -qq --no-deps --no-compile \
	  --only-binary :all: --disable-pip-version-check --no-input --requirement docs/dbt/requirements.txt
	@touch $@

# The same packages except DuckDB: packages of this environment come first on its path.
$(COMPAT)/.made: $(VENV)/.dev
	@rm -rf $(COMPAT) && $(BIN)/python -m venv $(COMPAT) && $(COMPAT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --no-deps '$(NEXT_DUCKDB)'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(COMPAT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gramhouse-dev.pth"
	@touch $@
