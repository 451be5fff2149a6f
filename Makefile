# stepwatch: `make` lists what there is.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
TORCH ?= 2.15.0

.DEFAULT_GOAL := help
.PHONY: help core page demo demo-healthy test test-long test-matrix test-core test-slurm test-torch test-adapters test-trainers lint gen bench gpu soak verdicts verdicts-host verdicts-device slis drill picture pictures tools clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# Installing builds the page; a later change of its sources builds it again.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

PAGE := collector/stepwatch/collector/web/page/built/.sources
PAGE_SOURCES := $(shell find collector/page/src -type f ! -name schema.d.ts) $(addprefix collector/page/,build.mjs package-lock.json hatch_build.py)

# Installing builds the core of the hooks too; they run as plain Python where it cannot be built.
CORE := training/stepwatch/hooks/core
CORE_BUILT := $(CORE)/_native.sources

core: $(CORE_BUILT)  ## compile the core of the hooks after a change of its sources

$(CORE_BUILT): $(READY) $(CORE)/compile.py $(wildcard $(CORE)/native/*)
	-$(BIN)/python $(CORE)/compile.py
	@test ! -e $@ || touch $@

page: $(PAGE)  ## build the page after a change of its sources

$(PAGE): $(READY) $(CORE_BUILT) $(PAGE_SOURCES)
	$(BIN)/python collector/page/hatch_build.py
	@touch $@

demo: $(PAGE)  ## train on four ranks, slow one down, say which and why (ARGS="--fault ...")
	$(BIN)/stepwatch demo $(ARGS)

demo-healthy: $(READY)  ## ten runs without a fault; fails if one raises an incident
	$(BIN)/python tests/e2e/healthy_runs.py 10

# Files that take minutes come first, so that no core is idle at the end.
FIRST := $(addprefix tests/,drill dashboards distributed e2e hangs alerts hooks verdicts guides simulated_device)
OTHERS := $(filter-out $(FIRST),$(patsubst %/,%,$(wildcard tests/*/)))
# Tests wait for much: three at a time keep two cores busy.
SHARED := -n 3 --dist loadfile --no-loadscope-reorder --durations=20
# Long tests that judge who is slow need the cores for themselves; the other long tests share them.
TIMED := $(addprefix tests/,adapters/test_huggingface.py adapters/test_loops.py adapters/test_run_ddp.py \
	agent/profiles/test_causes.py e2e/test_demo.py e2e/test_slow_files.py e2e/test_slow_parts.py)
# The work of these ranks is a sleep. Each takes a tenth of a machine, so that they judge right beside each other.
ASLEEP := $(addprefix tests/,e2e/test_node_faults.py e2e/test_slow_memory.py verdicts/test_site.py)
# Every rank is an interpreter: all but the first of a module read its bytecode.
unexport PYTHONDONTWRITEBYTECODE
ifeq ($(ARGS),)
# Lint takes the processor time that is left.
test:  ## install what is missing, lint, run the fast tests, and print the slowest twenty (10 minutes)
	@$(MAKE) --no-print-directory -j 2 $(PAGE) tools
	@failed=0; \
	nice -n 19 $(MAKE) --no-print-directory lint >$(VENV)/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest $(SHARED) $(FIRST) $(OTHERS) || failed=1; \
	wait $$lint || failed=1; \
	cat $(VENV)/lint.log; \
	exit $$failed

test-long: $(PAGE) tools  ## run the tests that `make test` leaves out because they are slow (ARGS="tests/e2e")
	@failed=0; \
	$(BIN)/python -m pytest -m "long and not matrix" $(SHARED) \
		$(addprefix --ignore=,$(TIMED) $(ASLEEP)) $(FIRST) $(OTHERS) || failed=1; \
	$(BIN)/python -m pytest -m "long and not matrix" $(SHARED) $(ASLEEP) || failed=1; \
	$(BIN)/python -m pytest -m "long and not matrix" --durations=20 $(TIMED) || failed=1; \
	exit $$failed
else
# Named files are run as a whole, long tests included.
test: $(PAGE) tools lint
	$(BIN)/python -m pytest -m "not matrix" $(ARGS)

test-long: $(PAGE) tools
	$(BIN)/python -m pytest -m "long and not matrix" $(ARGS)
endif

test-matrix: $(READY)  ## every combination of parallel strategies, crashes and real faults (long)
	$(BIN)/python -m pytest -m matrix $(ARGS)

test-core: $(READY)  ## the hooks on the plain core: `make test` runs them on the compiled one
	STEPWATCH_CORE=python $(BIN)/python -m pytest tests/hooks $(ARGS)

test-slurm: $(READY)  ## prolog and health check under a real Slurm of one node (as root)
	tests/install-tools slurm
	$(BIN)/python -m pytest -m matrix tests/slurm $(ARGS)

test-torch: .venv-torch-$(TORCH)/.ready  ## the hooks on another torch, in its own environment (TORCH=2.15.0)
	.venv-torch-$(TORCH)/bin/python -m pytest -m "not matrix" tests/hooks $(ARGS)

.venv-torch-%/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-torch-$*
	.venv-torch-$*/bin/pip install --quiet --disable-pip-version-check torch==$* --editable '.[agent]' hypothesis pytest
	@touch $@

test-adapters: .venv-adapters/.ready  ## the adapters on the real frameworks, in an environment of their own
	.venv-adapters/bin/python -m pytest -m "not matrix" tests/adapters $(ARGS)

.venv-adapters/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 --editable '.[all]' \
		transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6 \
		mlflow-skinny==3.17.2 tensorboard==2.21.0 wandb==0.31.0 setuptools wheel ninja hypothesis pytest
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu .venv-adapters/bin/pip install --quiet --disable-pip-version-check \
		--no-build-isolation deepspeed==0.19.8
	@touch $@

# What a user installs: a wheel, in an environment that has nothing of this repository.
test-trainers: .venv-trainers/.ready  ## real trainers, each watched in each way, as tables (90 minutes; ARGS="--record" runs the second one: 15 minutes)
	rm -rf .venv-trainers/wheel
	.venv-trainers/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .venv-trainers/wheel .
	.venv-trainers/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .venv-trainers/wheel/*.whl
	.venv-trainers/bin/python -m tests.trainers $(ARGS)

.venv-trainers/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-trainers
	.venv-trainers/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[agent,collector]' \
		torch==2.13.0 transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6 setuptools wheel ninja
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu .venv-trainers/bin/pip install --quiet --disable-pip-version-check \
		--no-build-isolation deepspeed==0.19.8
	@touch $@

lint: $(READY)  ## ruff, mypy strict, import layers, the closure check, and the types of the page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/stepwatch check
	$(BIN)/python collector/page/hatch_build.py --lint

gen: $(READY)  ## write dashboards, rules and their tests anew
	$(BIN)/stepwatch build

bench: $(PAGE)  ## measure the budgets, side by side with a baseline and with other stores (ARGS="ingest peers")
	@tests/install-tools peers || echo "measuring without those that are missing"
	$(BIN)/python -m tests.bench $(ARGS)

gpu: $(READY)  ## what only a GPU can show, on one with CUDA (7 minutes; ARGS="--only timeline")
	$(BIN)/python -m tests.gpu $(ARGS)

soak: $(PAGE) tools  ## kill -9 under 16,384 simulated ranks for ten minutes; what is stored is compared (ARGS="--small")
	$(BIN)/python -m tests.soak $(ARGS)

verdicts: $(READY)  ## how right verdicts are on scenarios drawn today (ARGS="--seeds 300 --json FILE")
	$(BIN)/python -m tests.verdicts $(ARGS)

verdicts-host: $(READY)  ## real runs of fixed cases with and without faults (20 minutes)
	$(BIN)/python -m tests.verdicts --matrix host $(ARGS)

verdicts-device: $(READY)  ## the same on a simulated device, where hosts run ahead (20 minutes)
	$(BIN)/python -m tests.verdicts --matrix device $(ARGS)

slis: $(READY)  ## each SLI on a real run with the fault that moves it, beside a figure by hand (20 minutes)
	$(BIN)/python -m tests.slis $(ARGS)

drill: $(PAGE) tools  ## faults through the whole chain, from rank to pager, as a scoreboard (an hour; ARGS="--only hang")
	$(BIN)/python -m tests.drill $(ARGS)

tools:  ## promtool, Chromium, PostgreSQL, Node.js and libfuse, installed from Debian's packages if missing
	@tests/install-tools

pictures: $(PAGE) tools  ## photograph the dashboards' panels, from a real run's answers (5 minutes)
	$(BIN)/python -m tests.dashboards.pictures $(ARGS)

picture: $(PAGE) tools  ## photograph every view of the page, from demos and a fleet (8 minutes; ARGS="--only fleet")
	$(BIN)/python -m tests.pictures collector/pictures $(ARGS)

clean:  ## remove the virtual environments and caches
	rm -rf $(VENV) .venv-* collector/page/node_modules collector/stepwatch/collector/web/page/built training/stepwatch/hooks/core/_native.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
