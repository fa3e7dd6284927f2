# make env: everything the rest needs, in .build/ (needs Python 3.11 or newer and the PyPI registry, nothing else)
SHELL := /bin/bash
PYTHON ?= python3
BUILD := .build
VENV := $(BUILD)/venv
BIN := $(VENV)/bin
COLLECTIONS := $(CURDIR)/$(BUILD)/collections
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_HOME := $(CURDIR)/$(BUILD)/ansible
export PYTHONPATH := $(CURDIR)/tests
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: env
env: $(BUILD)/env.done

$(BUILD)/env.done: requirements-dev.txt tests/bootstrap.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=/path/to/python3")'
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@$(BIN)/python tests/bootstrap.py $(COLLECTIONS) .
	@touch $@

.PHONY: unit
unit: env
	$(BIN)/python -m pytest tests/unit

.PHONY: clean
clean:
	rm -rf $(BUILD) dist tests/output
