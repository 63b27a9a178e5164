# Every target needs only python3, pip and make. The environment is created once from the pins in constraints.txt,
# and again only when those or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := $(VENV)/compat
DLT := $(VENV)/dlt
DBT := $(VENV)/dbt
MUTMUT := $(VENV)/mutmut
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
.PHONY: help demo up dev test check long bench dist docs format clean

help: ## List the targets.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(VENV)/.runtime ## Run everything on this machine: a sandbox API, syncs of 28 days, a first look.
	@$(BIN)/gramhouse demo --days 28

up: $(VENV)/.runtime ## Prefect server with its UI and the scheduled runs; stop with Ctrl-C.
	@$(BIN)/gramhouse up

# `make dev PINS=new` updates the pins in constraints.txt first.
ifdef PINS
constraints.txt:
	rm -rf .pins && $(PYTHON) -m venv .pins
	.pins/bin/python -m pip install --quiet --disable-pip-version-check '.[bench,dev]' 'setuptools>=77' uv
	.pins/bin/python -m pip freeze --exclude gramhouse > $@
	.pins/bin/python -m pip list --format freeze | grep '^setuptools==' >> $@
	rm -rf .pins
.PHONY: constraints.txt
endif
dev: $(VENV)/.dev ## Install what development needs, without running tests. PINS=new: with the newest packages.

# `make test ORDER=--random-order` shuffles, and prints the seed; `ORDER=--random-order-seed=17` repeats an order.
ORDER ?=
test: $(VENV)/.dev ## What CI runs: style, types, import rules, and all tests that are not marked `long`.
	@# Collecting writes bytecode meanwhile: in a new environment, each of pytest's workers would compile everything.
	@$(BIN)/pytest --collect-only -qq > /dev/null 2>&1 & $(MAKE) --no-print-directory check; code=$$?; wait; exit $$code
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder $(ORDER) -m 'not long'

check: $(VENV)/.dev ## Style, types and import rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

SEEDS ?= 40
# `make long MUTANTS='models.item*'` changes the rules in models/, state and merge one by one instead, and tests must
# notice. The value is a part of the names of mutants; all of state and merge take hours.
ifdef MUTANTS
long: $(MUTMUT)/.made
	$(MUTMUT)/bin/mutmut run '$(MUTANTS)'
	$(MUTMUT)/bin/mutmut results
else
long: $(VENV)/.dev $(DBT)/.made $(COMPAT)/.made ## Everything else: kills, simulated days of SEEDS seeds, the next DuckDB; half an hour.
	$(BIN)/pytest -n auto --dist worksteal -m long
	$(BIN)/python -m tests.harness --seeds $(SEEDS)
	rm -rf $(COMPAT)/files
	$(BIN)/python -m tests.warehouse.snapshot.test_warehouse_export $(COMPAT)/files
	@# What others read; gramhouse itself needs DuckDB 1.
	MADE_BY_ANOTHER_DUCKDB=$(CURDIR)/$(COMPAT)/files $(COMPAT)/bin/python -m pytest -q \
	  -W 'ignore:Arrow output on a DB-API result' tests/warehouse/snapshot/test_warehouse_export.py -k every_library
endif

SIZE ?= small
bench: $(VENV)/.bench $(DLT)/.made ## Benchmarks, compared with plain fetching and dlt; half an hour. SIZE=large: two hours, 20 GB.
	$(BIN)/python -m benchmarks $(SIZE)

dist: $(VENV)/.dev ## Build wheel and sdist into dist/ and test the wheel in a separate environment.
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/pytest -q tests/wheel

docs: $(VENV)/.dev ## Generate data dictionary and settings, the notebook's charts, and screenshots (these need Chromium).
	$(BIN)/python -m docs.generate
	rm -rf data/notebook && mkdir -p data/notebook && $(BIN)/python -m tests.snapshots data/notebook
	GRAMHOUSE_SNAPSHOT=data/notebook/analytics.duckdb $(BIN)/python docs/notebooks/run.py docs/notebooks
	$(BIN)/python docs/screenshots/take.py

format: $(VENV)/.dev ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove generated files, including the demo's data.
	rm -rf $(VENV) .pins .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis mutants data/demo

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

# mutmut needs packages that we do not, so it has an environment of its own, on top of this one.
$(MUTMUT)/.made: $(VENV)/.dev
	@rm -rf $(MUTMUT) && $(BIN)/python -m venv $(MUTMUT) && $(MUTMUT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input 'mutmut==3.8.1'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(MUTMUT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gramhouse-dev.pth"
	@touch $@

# The same packages except DuckDB: packages of this environment come first on its path.
$(COMPAT)/.made: $(VENV)/.dev
	@rm -rf $(COMPAT) && $(BIN)/python -m venv $(COMPAT) && $(COMPAT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --no-deps '$(NEXT_DUCKDB)'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(COMPAT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gramhouse-dev.pth"
	@touch $@
