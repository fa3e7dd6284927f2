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

# make demo FAULT=slow_node breaks something first, FAULT=list names the faults; REAL=1 runs the real perftest in virtual machines
.PHONY: demo
demo: env
	@FAULT=$(FAULT) NODES=$(NODES) REAL=$(REAL) bash tests/demo.sh

# In two lanes on two cores: what is checked by itself, and the roles on the simulated cluster
.PHONY: test
test: env
	@$(MAKE) --no-print-directory -j2 --output-sync=target checks scenarios

.PHONY: checks
checks:
	@$(MAKE) --no-print-directory lint unit sanity integration e2e

.PHONY: scenarios
scenarios: env
	@rm -rf $(ANSIBLE_HOME)/tmp/molecule*  # what an interrupted run believed to be running
	molecule test -s healthy -s faults -s readiness

# What takes longer: every scenario, the unit tests by way of ansible-test and with other clients, real RDMA, a browser
.PHONY: test-all
test-all: test more-scenarios units clients test-rdma browser

.PHONY: more-scenarios
more-scenarios: env
	@rm -rf $(ANSIBLE_HOME)/tmp/molecule*
	molecule test -s deploy -s report

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

.PHONY: units
units: tree $(TEST_HOME)/.done
	$(ANSIBLE_TEST) units --local --python $(PYTHON_VERSION) --color no

.PHONY: integration
integration: tree $(TEST_HOME)/.done
	$(ANSIBLE_TEST) integration --local --python $(PYTHON_VERSION) --color no

# The module with the oldest and the newest supported client of Kubernetes
.PHONY: clients
clients: env
	python tests/clients.py 28.1.0 $(BUILD)/clients
	python tests/clients.py 37.0.2 $(BUILD)/clients

# The report's page in headless Chromium; skipped where there is none
.PHONY: browser
browser: env
	python -m pytest tests/browser

# The real perftest over software RDMA, in virtual machines; skipped where qemu is missing (docs/rdma_vm.md)
export RDMA_VM_CACHE ?= $(CURDIR)/$(BUILD)/rdma_vm
.PHONY: test-rdma
test-rdma: env
	python -m pytest -n 2 tests/rdma

# What of it CI has time for
.PHONY: test-rdma-short
test-rdma-short: env
	python -m pytest tests/rdma/test_roles.py -k "default_command or server_that_is_killed or without_cuda"

# Whole runs of ansible-playbook: interrupted, killed, cleaned up, in check mode
.PHONY: e2e
e2e: env
	python -m pytest tests/e2e

.PHONY: clean
clean:
	rm -rf $(BUILD) dist tests/output
