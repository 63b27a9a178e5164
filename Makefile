# Everything here sets itself up on a machine with only python3, pip and make. The environment is made once,
# from the pins in constraints.txt, and made anew only when those or pyproject.toml change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := $(VENV)/compat
NEXT_DUCKDB := duckdb==2.0.0
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help demo up test check lint types imports unit long simulate compat format dictionary screenshots constraints clean matrix fuzz kills mutants proof bench-tracking

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
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev ## The tests alone.
	$(BIN)/pytest -n auto --dist worksteal -m 'not long'

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

mutants: $(VENV)/.dev ## Break the code on purpose, and see that the tests notice.
	$(BIN)/python -m tests.mutation

proof: simulate matrix fuzz kills mutants ## The long form of everything in docs/reliability.md.

bench-tracking: $(VENV)/.runtime ## What it costs that Prefect tracks a sync.
	$(BIN)/python -m benchmarks.tracking

compat: $(VENV)/.dev $(COMPAT)/.made ## What this DuckDB writes, the next one reads; it passes the readers' tests, too.
	rm -rf $(COMPAT)/files
	$(BIN)/python -m tests.warehouse.compat make $(COMPAT)/files
	$(COMPAT)/bin/python -m tests.warehouse.compat check $(COMPAT)/files
	$(COMPAT)/bin/python -m pytest -q tests/warehouse/test_warehouse_readers.py tests/warehouse/test_warehouse_export.py

format: $(VENV)/.dev ## Lay the code out.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dictionary: $(VENV)/.runtime ## Write docs/data-dictionary.md from the declarations.
	$(BIN)/python -c 'from models.dictionary import markdown; print(markdown(), end="")' > docs/data-dictionary.md

screenshots: $(VENV)/.runtime ## Photograph Prefect's UI anew for docs/operations.md; needs Chromium.
	@$(BIN)/python docs/screenshots/take.py

constraints: ## Pin anew what pyproject.toml allows.
	rm -rf .pins && $(PYTHON) -m venv .pins
	.pins/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]' 'setuptools>=77'
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

# The same packages but for DuckDB: an environment's own come first on its path.
$(COMPAT)/.made: $(VENV)/.dev
	@rm -rf $(COMPAT) && $(BIN)/python -m venv $(COMPAT) && $(COMPAT)/bin/python -m pip install -qq \
	  --disable-pip-version-check --no-input --no-deps '$(NEXT_DUCKDB)'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(COMPAT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gramhouse-dev.pth"
	@touch $@
