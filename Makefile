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

# make demo FAULT=slow_node breaks something first; make demo FAULT=list names the faults
.PHONY: demo
demo: env
	@FAULT=$(FAULT) NODES=$(NODES) bash tests/demo.sh

# Everything, in two lanes on two cores: what is checked without the cluster, and what runs on the simulated one
.PHONY: test
test: env
	@$(MAKE) --no-print-directory -j2 --output-sync=target checks scenarios

.PHONY: checks
checks:
	@$(MAKE) --no-print-directory lint unit sanity integration

.PHONY: scenarios
scenarios:
	@$(MAKE) --no-print-directory molecule e2e

.PHONY: lint
lint: tree
	black --check --quiet .
	ruff check --quiet .
	yamllint --strict .
	ansible-lint --profile production
	antsibull-changelog lint
	@# it copies what git tracks, and kubernetes.core lies in a folder that git ignores: let it not look up to this repository
	cd $(TREE)/k8si/fabric && GIT_CEILING_DIRECTORIES=$(CURDIR) ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/$(BUILD)/tree:$(COLLECTIONS) \
	  antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck --validate-collection-refs=dependent .

.PHONY: unit
unit: env
	python -m pytest tests/unit

# ansible-test wants a real folder ansible_collections/k8si/fabric, no link: it gets a copy of what git knows
TREE := $(BUILD)/tree/ansible_collections
.PHONY: tree
tree: env
	@rm -rf $(BUILD)/tree && mkdir -p $(TREE)/k8si/fabric
	@git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t $(TREE)/k8si/fabric 2>/dev/null; true
	@ln -s $(COLLECTIONS)/ansible_collections/kubernetes $(TREE)/kubernetes
	@cd $(TREE)/k8si/fabric && git init -q . && git add -A

# ansible-test keeps its environments under HOME, and wants a script there that it would download from elsewhere than PyPI
TEST_HOME := $(CURDIR)/$(BUILD)/home
ANSIBLE_TEST := cd $(TREE)/k8si/fabric && HOME=$(TEST_HOME) ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/$(BUILD)/tree ansible-test
PYTHON_VERSION = $$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
$(TEST_HOME)/.done: env tests/get_pip.py
	@mkdir -p $(TEST_HOME)/.ansible/test/cache
	@version=$$(sed -n "s/^ *pip='\(.*\)',/\1/p" $(VENV)/lib/python*/site-packages/ansible_test/_internal/python_requirements.py) && \
	  cp tests/get_pip.py $(TEST_HOME)/.ansible/test/cache/get_pip_$${version//./_}.py
	@touch $@

.PHONY: sanity
sanity: tree $(TEST_HOME)/.done
	$(ANSIBLE_TEST) sanity --local --python $(PYTHON_VERSION) --color no
	$(ANSIBLE_TEST) units --local --python $(PYTHON_VERSION) --color no

.PHONY: integration
integration: tree $(TEST_HOME)/.done
	$(ANSIBLE_TEST) integration --local --python $(PYTHON_VERSION) --color no

.PHONY: molecule
molecule: env
	@rm -rf $(ANSIBLE_HOME)/tmp/molecule*  # what an interrupted run believed to be running
	molecule test --all

# Whole runs of ansible-playbook: interrupted, killed, cleaned up, in check mode
.PHONY: e2e
e2e: env
	python -m pytest tests/e2e

.PHONY: clean
clean:
	rm -rf $(BUILD) dist tests/output
