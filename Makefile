# The front door: `make help` lists what there is. Everything that is made lies in build/; nothing needs root.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PREFIX ?= build/prefix
REPO ?=
SECONDS_OF_FUZZ ?= 10

# build/bin holds links to the tools that tools/require.sh chose, and comes first.
export PATH := $(CURDIR)/build/bin:$(PATH)
export GOTOOLCHAIN := local
export GOFLAGS := -mod=readonly -buildvcs=false
# Go's build cache does not see headers outside the folder of a cgo package: their hash in a flag makes it compile anew.
export CGO_CFLAGS := -O2 -g -DMMSB_HEADERS_$(shell cat include/*.h native/*.h | sha256sum | cut -c 1-16)
export PYTHONDONTWRITEBYTECODE := 1
export MMSB_LIBRARY := $(CURDIR)/build/libmmsb.so

# A user without a home folder to write to (a service, a container) gets Go's and pip's caches in build/.
ifneq ($(shell test -w "$(HOME)" && echo yes),yes)
export HOME := $(CURDIR)/build/home
$(shell mkdir -p $(HOME))
endif

STAMPS := build/stamps
VENV := build/venv/bin
CHECK := build/venv-check/bin
JULIA = $(shell command -v julia || echo $(CURDIR)/build/julia/usr/bin/julia)

GO_ROOMS := $(wildcard capi core native gpu nccl transfer cmd)
LIBRARY_SOURCES := $(shell find include $(GO_ROOMS) go.mod $(wildcard go.sum) -type f ! -name '*_test.go' ! -path '*/testdata/*')
C_FILES = $(shell find include capi native tests bench examples -name '*.[ch]' -o -name '*.cpp')
SHELL_FILES = .ci/run $(wildcard tools/*.sh tools/*/*.sh tests/*/*.sh)
PYTHON_FILES = $(wildcard bindings/python tools tests bench examples)

C_FLAGS := -g -O1 -Iinclude -Itests/c -Wall -Wextra -Wpedantic -Werror -pthread
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: all
all: lib venv ## the library and build/venv with the Python package and NumPy (what `make` alone does)

.PHONY: lib
lib: build/libmmsb.so ## build/libmmsb.so and its link libmmsb.so.0

.PHONY: venv
venv: $(STAMPS)/venv

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

# ---------------------------------------------------------------------------------------------------- tools ----

$(STAMPS)/tools: tools/require.sh tools/requirements/go.txt
	@mkdir -p build/bin $(STAMPS)
	@tools/require.sh
	@touch $@

$(STAMPS)/venv: tools/requirements/run.txt $(STAMPS)/tools
	@python3 -m venv build/venv
	@$(VENV)/python $(PIP) -r tools/requirements/run.txt
	@echo "$(CURDIR)/bindings/python/src" > "$$($(VENV)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mmsb.pth"
	@touch $@

$(STAMPS)/venv-test: tools/requirements/test.txt $(STAMPS)/venv
	@$(VENV)/python $(PIP) -r tools/requirements/test.txt
	@touch $@

$(STAMPS)/venv-check: tools/requirements/check.txt $(STAMPS)/tools
	@python3 -m venv build/venv-check
	@$(CHECK)/python $(PIP) -r tools/requirements/check.txt
	@touch $@

$(STAMPS)/venv-wheel: tools/requirements/wheel.txt $(STAMPS)/tools
	@python3 -m venv build/venv-wheel
	@build/venv-wheel/bin/python $(PIP) -r tools/requirements/wheel.txt
	@touch $@

$(STAMPS)/staticcheck: tools/requirements/staticcheck.txt $(STAMPS)/tools
	@GOFLAGS= GOBIN=$(CURDIR)/build/bin go install "$$(cat tools/requirements/staticcheck.txt)"
	@touch $@

$(STAMPS)/abigail: tools/fetch_abigail.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_abigail.sh
	@touch $@

.PHONY: julia
julia: $(STAMPS)/julia ## Julia from PATH, else Debian's packages extracted into build/julia
$(STAMPS)/julia: tools/fetch_julia.sh
	@mkdir -p $(STAMPS)
	@command -v julia > /dev/null || tools/fetch_julia.sh
	@touch $@

# -------------------------------------------------------------------------------------------------- library ----

build/libmmsb.so: $(LIBRARY_SOURCES) capi/mmsb.map tools/build_library.sh $(wildcard tools/go-overlay/*) $(STAMPS)/tools
	@tools/build_library.sh $@

build/asan/libmmsb.so: build/libmmsb.so
	@tools/build_library.sh $@ -asan

.PHONY: install
install: lib ## library, header, CMake and pkg-config files into PREFIX=
	@tools/install.sh "$(PREFIX)"

.PHONY: wheel
wheel: $(STAMPS)/venv-wheel ## build/wheel/*.whl for every glibc from 2.28 on
	@tools/build_wheel.sh build/wheel

# --------------------------------------------------------------------------------------------------- checks ----

.PHONY: check
check: lib $(STAMPS)/venv-check $(STAMPS)/venv $(STAMPS)/staticcheck ## format, vet, staticcheck, ruff, mypy, header alone, house rules
	@tools/check.sh

.PHONY: fmt
fmt: $(STAMPS)/venv-check ## format Go, C and Python
	@gofmt -w $(GO_ROOMS)
	@$(CHECK)/clang-format -i $(C_FILES)
	@$(CHECK)/ruff format --quiet $(PYTHON_FILES)

.PHONY: abi-check
abi-check: lib $(STAMPS)/abigail ## exported symbols and types against abi/
	@tools/abi.sh check

.PHONY: abi-update
abi-update: lib $(STAMPS)/abigail ## write abi/ anew from the built library
	@tools/abi.sh update

# ---------------------------------------------------------------------------------------------------- tests ----

.PHONY: test
test: all ## every suite; the last line adds them up
	@python3 tools/test_runner.py

.PHONY: test-go
test-go: $(STAMPS)/tools
	@python3 tools/go_test.py ./...

.PHONY: test-race
test-race: $(STAMPS)/tools
	@python3 tools/go_test.py -race -tags invariants $(patsubst %,./%/...,$(filter core gpu nccl transfer,$(GO_ROOMS)))

# Every tests/c/*_test.c and .cpp is one program that prints `N passed, M failed`.
C_TESTS := $(patsubst tests/c/%,%,$(wildcard tests/c/*_test.c tests/c/*_test.cpp))
C_TEST_INPUTS := $(wildcard tests/c/*.h) include/mmsb.h

build/c/%.c.run: tests/c/%.c $(C_TEST_INPUTS) build/libmmsb.so
	@mkdir -p $(@D)
	@gcc -std=gnu11 $(C_FLAGS) $< -o $@ -Lbuild -lmmsb -ldl -lm -Wl,-rpath,$(CURDIR)/build
build/c/%.cpp.run: tests/c/%.cpp $(C_TEST_INPUTS) build/libmmsb.so
	@mkdir -p $(@D)
	@g++ -std=c++17 $(C_FLAGS) $< -o $@ -Lbuild -lmmsb -ldl -lm -Wl,-rpath,$(CURDIR)/build
build/c-asan/%.c.run: tests/c/%.c $(C_TEST_INPUTS) build/asan/libmmsb.so
	@mkdir -p $(@D)
	@gcc -std=gnu11 -fsanitize=address $(C_FLAGS) $< -o $@ -Lbuild/asan -lmmsb -ldl -lm -Wl,-rpath,$(CURDIR)/build/asan
build/c-asan/%.cpp.run: tests/c/%.cpp $(C_TEST_INPUTS) build/asan/libmmsb.so
	@mkdir -p $(@D)
	@g++ -std=c++17 -fsanitize=address $(C_FLAGS) $< -o $@ -Lbuild/asan -lmmsb -ldl -lm -Wl,-rpath,$(CURDIR)/build/asan

.PHONY: test-c
test-c: $(C_TESTS:%=build/c/%.run)
	@tools/run_programs.sh $^

.PHONY: test-asan
test-asan: $(C_TESTS:%=build/c-asan/%.run)
	@MMSB_LIBRARY=$(CURDIR)/build/asan/libmmsb.so ASAN_OPTIONS=detect_leaks=0 tools/run_programs.sh $^

# native/ alone, without Go: its C files with each native/tests/*_test.c.
NATIVE_TESTS := $(patsubst native/tests/%.c,%,$(wildcard native/tests/*_test.c))
build/tsan/%.run: native/tests/%.c $(wildcard native/*.c native/*.h) include/mmsb.h
	@mkdir -p $(@D)
	@gcc -std=gnu11 -fsanitize=thread $(C_FLAGS) -Inative $< $(wildcard native/*.c) -o $@ -ldl -lm

.PHONY: test-tsan
test-tsan: $(NATIVE_TESTS:%=build/tsan/%.run)
	@tools/run_programs.sh $^

.PHONY: test-python
test-python: lib $(STAMPS)/venv-test
	@$(VENV)/python -m pytest -q -p no:cacheprovider bindings/python/tests

.PHONY: test-julia
test-julia: lib $(STAMPS)/julia
	@for threads in 1 2; do \
	    JULIA_NUM_THREADS=$$threads JULIA_DEPOT_PATH=$(CURDIR)/build/julia-depot \
	        $(JULIA) --project=bindings/julia bindings/julia/test/runtests.jl; \
	done

.PHONY: test-install
test-install: lib $(STAMPS)/tools
	@tests/install/run.sh

.PHONY: test-wheel
test-wheel: wheel
	@tests/install/wheel.sh

.PHONY: test-gpu
test-gpu:
	@command -v nvidia-smi > /dev/null || echo "not run: no GPU"

.PHONY: test-fuzz
test-fuzz: lib ## calls the C ABI at random for SECONDS_OF_FUZZ=10, checked against a model
	@tools/fuzz.sh $(SECONDS_OF_FUZZ)

.PHONY: fresh-test
fresh-test: ## the README's two commands in a bare Debian 12
	@tools/fresh_test.sh

# --------------------------------------------------------------------------------------------- to look at ----

.PHONY: demo
demo: all ## replays a git history (REPO=folder) into pages and checks every byte; then the quickstarts
	@$(VENV)/python examples/replay_git.py $(REPO)

.PHONY: bench
bench: all ## speed against the peers
	@bench/run.sh

.PHONY: clean
clean: ## removes build/
	@if [ -d build ]; then chmod -R u+w build; rm -rf build; fi
