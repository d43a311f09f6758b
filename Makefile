# Penstock. `make up` on a fresh machine with Python 3.11 and a JDK 17 is all there is to know.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3.11
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
export PYTHON

.PHONY: help up down setup test slow lint lock e2e parity chaos cluster s3 security browser bench clean

help:  ## what can be typed here
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: setup  ## set up, start the platform and the demo traffic
	@$(BIN)/penstock up $(ARGS)

down:  ## stop the platform; data stays
	@if [ -x $(BIN)/penstock ]; then $(BIN)/penstock down; else echo "Nothing was set up here."; fi

setup:  ## environment, packages, jars; quick when nothing changed
	@infra/setup

test: setup lint  ## what CI runs: set-up, lint and the suite
	@$(PYTEST) tests -m "not slow" -n $(WORKERS) $(ARGS)

slow: setup  ## everything that `make test` leaves out but the browser
	@$(PYTEST) tests -m slow --ignore tests/browser $(ARGS)

lint: setup  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lock: setup  ## pin what requirements.in and infra/jars/ivy.xml ask for; review and commit
	@.venv/bootstrap/bin/uv pip compile -q --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header requirements.in -o requirements.lock
	@.venv/bootstrap/bin/uv pip compile -q --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header infra/bootstrap.in -o infra/bootstrap.lock
	@.venv/bootstrap/bin/uv pip compile -q --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -c requirements.lock infra/browser.in -o infra/browser.lock
	@$(BIN)/python -m penstock.platform.jars --lock

e2e: setup  ## the whole platform, end to end
	@$(PYTEST) tests/e2e tests/integration/test_dags_run.py $(ARGS)

parity: setup  ## stream equals batch equals oracle, with ten times the random lives
	@$(PYTEST) tests/parity --hypothesis-profile=long -n $(WORKERS) $(ARGS)

chaos: setup  ## kill things under load, lose nothing
	@$(PYTEST) tests/chaos tests/integration/clients/test_killed.py $(ARGS)

cluster: setup  ## streams, a swap and a backfill on a Spark master; a worker is lost
	@$(PYTEST) tests/integration/test_cluster_flow.py $(ARGS)

s3: setup  ## a stack with its tables on a real S3 server, killed and changed (10 minutes)
	@$(PYTEST) tests/unit/test_location.py tests/unit/test_location_story.py \
	  tests/parity/test_store_kinds.py tests/integration/test_object_store.py $(ARGS)

security: setup  ## who may do what, and where secrets are not
	@$(PYTEST) tests/security $(ARGS)

browser: setup  ## an operator at work in Airflow, in a real browser (needs chromium)
	@infra/browser
	@$(PYTEST) tests/browser $(ARGS)

bench: setup  ## measure latency on the running platform (make up first; 11 minutes)
	@$(BIN)/python tests/bench/latency.py $(ARGS)

clean: down  ## remove the stack's data, the environment and the jars
	@rm -rf .penstock .venv .jars
