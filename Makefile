# `make serve` builds the site and serves it; `make test` runs every test. Both install what they need first.
# The README gives the same commands without make.

PYTHON ?= python3
BIND ?= 127.0.0.1
# Options of the build, e.g. BUILD="--pyodide-dir ../pyodide"; a port for `make serve`, e.g. PORT=9000.
BUILD ?=
PORT ?=
# Two processes run the tests: a browser and a server need cores too.
WORKERS ?= 2

BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help install install-tests build serve lint format test test-all lock clean

help:
	@echo "make serve      build the site and serve it (PORT=9000, BIND=0.0.0.0)"
	@echo "make test       check the sources and run every test"
	@echo "make test-all   the same with the long sets, and a report in reports/"
	@echo "make build      build the site into dist/"
	@echo "make lint       check format, style and types"
	@echo "make format     put the Python sources into the project's format"
	@echo "make lock       choose the newest versions and write the locks anew"
	@echo "make clean      remove all that these commands made"

install:
	@$(PYTHON) -m builder.environment

install-tests:
	@$(PYTHON) -m builder.environment --tests

build: install
	$(BIN)/python build_site.py $(BUILD)

serve: build
	$(BIN)/raona serve --bind $(BIND) $(if $(PORT),--port $(PORT))

# pre-commit runs these too: see .pre-commit-config.yaml.
lint: install-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	node_modules/.bin/pyright
	node_modules/.bin/tsc -p tsconfig.json
	node_modules/.bin/tsc -p tsconfig.worker.json

format: install-tests
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=20

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=20 -m "" \
		--junit-xml=reports/$$(date -u +%Y-%m-%d)-$$(git rev-parse --short HEAD).xml

lock: install-tests
	$(BIN)/python -m builder.locks

clean:
	rm -rf .venv node_modules dist build reports minigpt/kernel/_build .cache .pytest_cache .ruff_cache .hypothesis
