# `make demo` and `make test` need Python 3.11 to 3.13 with venv. Each makes its own environment from the
# hashed requirement files, once, and again when they change.
.PHONY: help demo test azurite fast full slow tests collect durations check lint format types imports wheel manifests site sbom dist image
.PHONY: prices heads audit house bench gpuwheels golden recording locks live cluster clean
.DELETE_ON_ERROR:

# TensorFlow 2.21 has builds for these versions of Python only.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for found in python3 python3.13 python3.12 python3.11; do \
	$$found -c '$(SUPPORTED)' 2>/dev/null && echo $$found && break; done)
LOCKED = $(PYTHON) -P cloudgan/core/lock.py
LOCKS := requirements/lock.txt requirements/gpu.txt requirements/jax-tpu.txt
PIP := -m pip -qq --disable-pip-version-check --no-input
CI_TOOLS := .venv-test/bin/
# Four processes, each takes whole files (with TensorFlow a process needs 1.5 GiB of memory): many tests
# wait for servers and processes, so four finish earlier than two on two cores. A plain `pytest` runs
# all tests in one process.
PROCESSES ?= 4
# Tests start hundreds of processes: they read compiled modules where the caller's shell turns that off.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := -m pytest --numprocesses $(PROCESSES) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder
SPEED := not slow
marked = -m "$(1)$(if $(SPEED), and $(SPEED))"

help:     ## lists these targets
	@awk -F ':.*## *' '/^[a-z]+:.*##/ {printf "%-9s %s\n", $$1, $$2}' Makefile

demo: .venv/installed  ## simulates, trains, generates, validates and prices on this machine
	.venv/bin/cloudgan demo

test:     ## the tests that need no cloud and no GPU, but the slow ones
	+$(call make-all,fast full)

fast: .venv-fast/installed azurite  ## the tests that need no TensorFlow, in an environment without it
	.venv-fast/bin/python $(PYTEST) $(call marked,not tf)

# Azurite: Microsoft's Blob Storage emulator, a Node program. No install script of a package runs.
AZURITE := tests/azurite/node_modules/.package-lock.json
azurite: $(if $(shell command -v npm),$(AZURITE),without-npm)

$(AZURITE): tests/azurite/package-lock.json
	@npm ci --prefix tests/azurite --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error \
	  && touch $@ || { rm -rf $(@D); \
	  echo "npm could not install Azurite; tests of Azure Blob Storage are skipped"; }

.PHONY: without-npm
without-npm:
	@echo "npm is not installed; tests of Azure Blob Storage are skipped"

full: .venv-test/installed azurite  ## the tests that need TensorFlow
	.venv-test/bin/python $(PYTEST) $(call marked,tf)

slow:     ## the tests marked slow: the same behaviours on more paths
	@$(MAKE) --no-print-directory test SPEED=slow

tests:    ## both: each file is collected once, and no process waits at the end of the shorter half
	@$(MAKE) --no-print-directory test SPEED=

collect: .venv-fast/installed .venv-test/installed  ## imports all tests: what they import is compiled once, not by each process
	@mkdir -p build
	@$(call collect-only,.venv-fast,not tf)
	@$(call collect-only,.venv-test,tf)

durations: .venv-fast/installed .venv-test/installed azurite  ## records how long each test file takes
	.venv-fast/bin/python $(PYTEST) -m "not tf" --record-durations
	.venv-test/bin/python $(PYTEST) -m tf --record-durations

check:    ## runs all that CI runs
	+$(call make-all,lint format types imports tests wheel manifests site)

lint: .venv-test/installed
	$(CI_TOOLS)ruff check .

format: .venv-test/installed
	$(CI_TOOLS)ruff format --check .

types: .venv-test/installed
	$(CI_TOOLS)mypy

imports: .venv-test/installed
	$(CI_TOOLS)lint-imports

# Installs the wheel as a user does: no TensorFlow, outside the checkout.
wheel: .venv-test/installed
	rm -rf build/wheel && mkdir -p build/wheel
	$(CI_TOOLS)hatchling build --target wheel --directory build/wheel
	$(call require-python)
	$(PYTHON) -m venv build/wheel/venv
	$(LOCKED) > build/wheel/base.txt
	build/wheel/venv/bin/python $(PIP) install --require-hashes --only-binary :all: -r build/wheel/base.txt
	build/wheel/venv/bin/python $(PIP) install --no-deps --no-index build/wheel/*.whl
	cd / && "$(CURDIR)/build/wheel/venv/bin/cloudgan" --version
	cd / && "$(CURDIR)/build/wheel/venv/bin/cloudgan" --help
	cd / && "$(CURDIR)/build/wheel/venv/bin/python" -m cloudgan train --help > /dev/null

# Strict schemas reject misspelt fields. The files under k8s/ are valid without changes.
MANIFESTS = $(wildcard k8s/*.yaml deploy/kubernetes/*.yaml tests/launch/plan/golden/*.yaml)
LINTERS := .venv-manifests/bin/
manifests: .venv-manifests/locked  ## checks k8s/, deploy/, the manifests of plans and the workflows
	$(LINTERS)yamllint --strict k8s deploy .yamllint.yaml .checkov.yaml
	newest=$$($(LINTERS)python -c 'import kubernetes_validate as k; print(k.latest_version())'); \
	for version in 1.30 1.32 $$newest; do \
	  $(LINTERS)kubernetes-validate --quiet --strict -k $$version $(MANIFESTS) || exit 1; done
	$(LINTERS)hadolint deploy/Dockerfile
	$(LINTERS)zizmor --offline --quiet .github/workflows
	$(LINTERS)shellcheck .ci/run $(shell find deploy k8s tests/realcluster -name '*.sh')
	for folder in k8s deploy $(wildcard tests/launch/plan/golden); do \
	  $(LINTERS)checkov --config-file .checkov.yaml --directory $$folder || exit 1; done

sbom: .venv-manifests/locked  ## writes the contents of the images, as CycloneDX, to build/sbom/
	mkdir -p build/sbom
	for kind in cpu:train gpu:gpu tpu:tpu; do $(LOCKED) $${kind#*:} pod \
	  | $(LINTERS)python -W ignore -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml \
	    --output-file build/sbom/$${kind%:*}.json - || exit 1; done

site: .venv-manifests/locked  ## builds the manual as a site: build/site/index.html; needs no server
	NO_MKDOCS_2_WARNING=1 $(LINTERS)mkdocs build --quiet --strict --site-dir build/site

dist: .venv-test/installed  ## builds the wheel and the source distribution; TAG=vX.Y.Z must name the version
	test -z "$(TAG)" || test "$(TAG)" = "v$$($(CI_TOOLS)hatchling version)"
	rm -rf dist && $(CI_TOOLS)hatchling build --directory dist

KIND ?= cpu
IMAGE ?= cloudgan:$(KIND)
image: .venv/installed  ## builds the image of a KIND of nodes (cpu, gpu, tpu) as IMAGE, with docker; PUSH=1 pushes it
	rm -rf build/image-$(KIND) && mkdir -p build
	.venv/bin/cloudgan image build/image-$(KIND) --kind=$(KIND)
	docker build --tag $(IMAGE) build/image-$(KIND)
	test -z "$(PUSH)" || docker push $(IMAGE)

# A list that cannot be read keeps its prices.
prices: .venv/installed  ## refreshes the prices of the checkout from the lists of the clouds
	.venv/bin/cloudgan prices refresh --output=cloudgan/money/lists/nodes.csv

heads:    ## runs the tests with the newest versions that pyproject.toml allows
	$(call require-python)
	$(PYTHON) -m venv --clear .venv-heads
	.venv-heads/bin/python $(PIP) install --editable '.[dev]'
	.venv-heads/bin/python $(PYTEST) $(call marked,not tf)
	.venv-heads/bin/python $(PYTEST) $(call marked,tf)

audit: .venv-manifests/locked  ## compares the locks with the lists of known vulnerabilities
	for lock in lock gpu manifests; do \
	  $(LINTERS)pip-audit --disable-pip --require-hashes --requirement requirements/$$lock.txt || exit 1; done

house:    ## prints lines, modules, import circles, words of documentation, lines of locks
	@$(PYTHON) benchmarks/house.py

bench: .venv/installed  ## measures this machine: the step, its input, generation
	for what in step input generate; do .venv/bin/cloudgan bench $$what --preset=mini || exit 1; done

# Keras runs on an installed JAX, without TensorFlow. JAX brings numpy and ml_dtypes; images with JAX
# mostly contain absl-py, h5py, packaging and rich.
OF_JAX := annotated-types|keras|namex|optree|pydantic|pydantic-core|typing-extensions|typing-inspection
GPU_PYTHON := 3.12
gpuwheels: ## downloads what benchmarks/gpu_step needs besides JAX to build/gpuwheels/
	rm -rf build/gpuwheels && mkdir -p build/gpuwheels
	$(LOCKED) train | awk '/^($(OF_JAX))==/, !/\\$$/' > build/gpuwheels/locked.txt
	$(call require-python)
	$(PYTHON) $(PIP) download --require-hashes --no-deps --only-binary :all: --implementation cp \
	  --python-version $(GPU_PYTHON) --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
	  --platform manylinux2014_x86_64 --dest build/gpuwheels -r build/gpuwheels/locked.txt

golden: .venv-test/installed  ## rewrites the expected plans and outputs; read the diff
	PYTHONPATH=tests .venv-test/bin/python tests/launch/plan/write_golden.py
	PYTHONPATH=tests .venv-test/bin/python tests/cli/write_golden.py
	PYTHONPATH=tests .venv-test/bin/python tests/cli/write_pages.py
	.venv-test/bin/python tests/api/write_stub.py
	.venv-test/bin/ruff check --fix -q cloudgan/__init__.pyi && .venv-test/bin/ruff format -q cloudgan/__init__.pyi
	.venv-test/bin/python tests/api/write_notebook.py
	PYTHONPATH=tests .venv-test/bin/python tests/launch/clouds/write_golden.py
	PYTHONPATH=tests:. .venv-test/bin/python tests/launch/backends/tpu_vm/test_requests.py

recording: .venv-test/installed  ## runs the commands of docs/recording.svg in a terminal and draws what they print
	PYTHONPATH=tests .venv-test/bin/python tests/cli/write_recording.py

cluster:  ## builds the real Kubernetes control plane of tests/realcluster, once; needs Go
	tests/realcluster/build.sh

BUDGET ?= 5
live: .venv-test/installed  ## the paid test of a cloud account: PROVIDER=gcp BUDGET=5 [LIVE=--dry-run]
	PYTHONPATH=tests .venv-test/bin/python -m live --provider=$(PROVIDER) --budget=$(BUDGET) $(LIVE)

clean:    ## deletes the environments and the builds
	rm -rf .venv .venv-fast .venv-test .venv-manifests .venv-locks .venv-heads build dist

.venv/locked: $(LOCKS)
	$(call environment,.venv,$(LOCKED) build train)

# The packages of .venv-test without TensorFlow: linked, not installed a second time.
.venv-fast/locked: .venv-test/locked tests/linked_environment.py
	@$(PYTHON) -m venv --clear .venv-fast
	@$(LOCKED) build test > .venv-fast/requirements.txt
	@.venv-test/bin/python tests/linked_environment.py .venv-fast/requirements.txt .venv-fast
	@touch $@

.venv-test/locked: $(LOCKS)
	$(call environment,.venv-test,$(LOCKED) build dev)

.venv-manifests/locked: requirements/manifests.txt
	$(call environment,.venv-manifests,cat $<)

# Installs the checkout without downloads or a build environment.
%/installed: %/locked pyproject.toml
	@$*/bin/python $(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# Makes all targets of $(1), whichever fail, and names those at the end.
define make-all
	@failed=; for part in $(1); do $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	  test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
endef

define collect-only
$(1)/bin/python -m pytest --collect-only -qq -m "$(2)" > build/collected.txt || { cat build/collected.txt; exit 1; }
endef

define require-python
	@test -n "$(PYTHON)" || { echo "cloudgan needs Python 3.11, 3.12 or 3.13 (TensorFlow 2.21 has no\
 build for others), and no installed python3 is one. Install one, or pass it: make demo\
 PYTHON=/path/to/python3.12" >&2; exit 1; }
endef

# $(1) is the folder of the environment, $(2) prints what it installs. Only wheels are installed.
define environment
	$(call require-python)
	@echo "making $(1); this takes a few minutes, once"
	@$(PYTHON) -m venv --clear $(1) || { rm -rf $(1); echo "$(PYTHON) cannot make virtual\
 environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(2) > $(1)/requirements.txt
	@# A module is compiled when it is first imported: most never are.
	@$(1)/bin/python $(PIP) install --no-compile --require-hashes --only-binary :all: -r $(1)/requirements.txt
	@touch $(1)/locked
endef

# `make locks UPGRADE=--upgrade` takes newer versions; without it the versions are kept if pyproject.toml
# allows them. TensorFlow's extra is locked by itself: cloudgan/core/lock.py says why.
LOCK := .venv-locks/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make locks' $(UPGRADE)
EXTRAS := dev mlflow wandb tpu
locks: .venv-locks/installed  ## resolves requirements/ again
	$(LOCK) --annotation-style line pyproject.toml $(addprefix --extra ,$(EXTRAS)) --group build \
	  --output-file requirements/lock.txt
	$(LOCK) --no-annotate pyproject.toml --extra gpu --constraints requirements/lock.txt \
	  $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements/lock.txt) --output-file requirements/gpu.txt
	sed '/^libtpu==/,/[^\\]$$/d' requirements/lock.txt > .venv-locks/without-libtpu.txt
	$(LOCK) --no-annotate pyproject.toml --extra jax-tpu --constraints .venv-locks/without-libtpu.txt \
	  $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' .venv-locks/without-libtpu.txt) \
	  --output-file requirements/jax-tpu.txt
	$(LOCK) --no-annotate --group manifests --output-file requirements/manifests.txt
	for lock in lock gpu jax-tpu manifests; do \
	  $(LOCK) --no-deps --format pylock.toml requirements/$$lock.txt --output-file .venv-locks/pylock.toml \
	    && $(PYTHON) requirements/narrow.py requirements/$$lock.txt .venv-locks/pylock.toml || exit 1; done

.venv-locks/installed:
	$(call require-python)
	$(PYTHON) -m venv --clear .venv-locks
	.venv-locks/bin/python $(PIP) install uv==0.13.8
	touch $@
