# The front door: `make help` lists what there is. Everything that is made lies in build/; nothing needs root.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PREFIX ?= build/prefix
REPO ?=
CALLS ?= 100000
SEED ?=
MMSB_CUDA ?= on
export MMSB_CUDA
RUNS ?= 2000

# build/bin holds links to the tools that tools/require.sh chose, and comes first.
export PATH := $(CURDIR)/build/bin:$(PATH)
export GOTOOLCHAIN := local
# Go's own packages and ours are compiled once for the library, the tool and the tests: all are position-independent, and run on
# the runtime that the library has (tools/go-overlay). A recipe expands this: the file is there when tools are.
# Of builds that run at once the library's goes first: the others would compile the same, and Go's cache keeps for it what C code
# it compiles, but not the other way round.
GO_OVERLAY = $(shell test -e build/go-overlay/overlay.json && echo -overlay=$(CURDIR)/build/go-overlay/overlay.json)
# A command that names tags of its own names these too: -tags takes the place of GOFLAGS', and all that imports net is built anew.
TAGS := netgo,osusergo
COMPILED_ONCE = -modcacherw -trimpath -buildmode=pie -tags=$(TAGS) $(GO_OVERLAY)
export GOFLAGS = -mod=readonly -buildvcs=false $(COMPILED_ONCE)
FIRST_BUILD = $(if $(INPUTS_ONLY),build/libmmsb.so)
SECOND_BUILD = $(if $(INPUTS_ONLY),build/mmsb)
# Caches lie in build/ like everything else that is made.
export GOCACHE := $(CURDIR)/build/cache/go
export STATICCHECK_CACHE := $(CURDIR)/build/cache/staticcheck
export GOMODCACHE := $(CURDIR)/build/cache/go-modules
export PIP_CACHE_DIR := $(CURDIR)/build/cache/pip
# A network that fails for some seconds fails no build. apt-get tries again by itself, Go does not.
export PIP_RETRIES := 10
export PIP_DEFAULT_TIMEOUT := 60
# Go's build cache does not see headers outside the folder of a cgo package: their hash in a flag makes it compile anew.
# NVML's header, which tests of gpu/nvml read, declares what is deprecated.
HEADERS := $(shell cat include/*.h native/*.h gpu/blocks/*.h kernels/* | sha256sum | cut -c 1-16)
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations -DMMSB_HEADERS_$(HEADERS)
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
JULIA := build/julia/usr/bin/julia

GO_ROOMS := $(wildcard capi core native gpu nccl transfer cmd)
LIBRARY_SOURCES := $(shell find include kernels $(filter-out cmd,$(GO_ROOMS)) go.mod $(wildcard go.sum) \
    -type f ! -name '*_test.go' ! -path '*/testdata/*')
TOOL_SOURCES := $(shell find cmd core gpu kernels go.mod go.sum -type f ! -name '*_test.go')
C_FILES = $(shell find include capi native gpu kernels tests bench examples -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' | \
    grep -v examples/quickstart)
PYTHON_FILES = tools tests bench docs/site $(filter-out examples/quickstart.py,$(wildcard examples/*.py))

# What the library needs of kernels/: nothing where MMSB_CUDA is off.
KERNEL_ARCHIVE := build/kernels/$(if $(filter aarch64,$(shell uname -m)),arm64,amd64)/libmmsb_kernels.a
KERNELS := $(if $(filter off,$(MMSB_CUDA)),,$(KERNEL_ARCHIVE))

C_FLAGS := -g -Og -Iinclude -Wall -Wextra -Wpedantic -Werror -pthread
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: all
all: lib tool venv ## the library, the tool and build/venv with the Python package and NumPy (what `make` alone does)

.PHONY: lib
lib: build/libmmsb.so ## build/libmmsb.so and its link libmmsb.so.0

.PHONY: tool
tool: build/mmsb $(STAMPS)/share ## build/mmsb, and its manual page and completions in build/share

.PHONY: venv
venv: $(STAMPS)/venv

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

# ---------------------------------------------------------------------------------------------------- tools ----

$(STAMPS)/tools: tools/require.sh tools/requirements/go.txt $(wildcard tools/go-overlay/*)
	@mkdir -p build/bin $(STAMPS)
	@tools/require.sh
	@tools/go-overlay/apply.sh build/go-overlay || true
	@for pause in 5 30 0; do build/bin/go mod download && break || sleep $$pause; done
	@touch $@

$(STAMPS)/venv: tools/requirements/run.txt $(STAMPS)/tools
	@python3 -m venv build/venv
	@$(VENV)/python $(PIP) -r tools/requirements/run.txt
	@echo "$(CURDIR)/bindings/python/src" > \
	    "$$($(VENV)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mmsb.pth"
	@touch $@

$(STAMPS)/venv-test: tools/requirements/test.txt $(STAMPS)/venv
	@$(VENV)/python $(PIP) -r tools/requirements/test.txt
	@touch $@

# The others have no pip of their own, which takes seconds to make: the first one's installs into them. PyTorch's wheel wants
# NVIDIA's libraries, 4 GB with them, though nothing is run on a GPU; Triton and others it does without.
$(STAMPS)/venv-torch: private PIP_OPTIONS := --no-deps
$(STAMPS)/venv-%: tools/requirements/%.txt $(STAMPS)/venv
	@python3 -m venv --without-pip build/venv-$*
	@$(VENV)/python $(PIP:install=--python build/venv-$*/bin/python install) $(PIP_OPTIONS) -r tools/requirements/$*.txt
	@touch $@

# NVIDIA's headers, which nothing but tests reads.
CUDA_HEADERS := build/cuda-headers/nvidia/cu13/include
$(STAMPS)/cuda-headers: tools/requirements/cuda-headers.txt $(STAMPS)/venv
	@rm -rf build/cuda-headers
	@$(VENV)/python $(PIP) --no-deps --target build/cuda-headers -r tools/requirements/cuda-headers.txt
	@touch $@

$(STAMPS)/staticcheck: tools/requirements/staticcheck.txt $(STAMPS)/tools | $(SECOND_BUILD)
	@GOFLAGS='$(COMPILED_ONCE)' GOBIN=$(CURDIR)/build/bin go install "$$(cat tools/requirements/staticcheck.txt)"
	@touch $@

$(STAMPS)/abigail: tools/fetch_abigail.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_abigail.sh
	@touch $@

$(STAMPS)/lintian: tools/fetch_lintian.sh tools/extract_debs.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_lintian.sh
	@touch $@

$(STAMPS)/arm64: tools/fetch_arm64.sh tools/extract_debs.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_arm64.sh
	@touch $@

.PHONY: julia
julia: $(STAMPS)/julia ## Julia from PATH, else Debian's packages extracted into build/julia
$(STAMPS)/julia: tools/fetch_julia.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_julia.sh
	@touch $@

# -------------------------------------------------------------------------------------------------- library ----

build/libmmsb.so: $(LIBRARY_SOURCES) $(KERNELS) $(STAMPS)/cuda-setting capi/mmsb.map tools/build_library.sh \
    $(wildcard tools/go-overlay/*) $(STAMPS)/tools
	@tools/build_library.sh $@

# The kernels for CUDA; MMSB_CUDA=off leaves them out, and a change of mind builds the library anew.
$(STAMPS)/cuda: tools/fetch_nvcc.sh tools/requirements/cuda.txt tools/requirements/cuda-headers.txt $(STAMPS)/tools
	@tools/fetch_nvcc.sh
	@touch $@
build/kernels/kernels.fatbin: $(wildcard kernels/*) tools/build_kernels.sh $(STAMPS)/cuda
	@tools/build_kernels.sh $(@D)
$(KERNEL_ARCHIVE): build/kernels/kernels.fatbin tools/archive_kernels.sh
	@tools/archive_kernels.sh $(@D)

.PHONY: always
always:
$(STAMPS)/cuda-setting: always
	@mkdir -p $(@D)
	@echo '$(MMSB_CUDA)' | cmp -s - $@ || echo '$(MMSB_CUDA)' > $@

# The tool needs no library but C's: device drivers are opened by name when they are asked for.
VERSION := $(shell awk '$$2 == "MMSB_VERSION_STRING" { gsub(/"/, "", $$3); print $$3 }' include/mmsb.h)
build/mmsb: $(TOOL_SOURCES) include/mmsb.h $(STAMPS)/tools | $(FIRST_BUILD)
	@go build -ldflags '-s -w -buildid= -X main.version=$(VERSION)' -o $@ ./cmd/mmsb

$(STAMPS)/share: $(TOOL_SOURCES) include/mmsb.h $(STAMPS)/tools | $(SECOND_BUILD)
	@rm -rf build/share
	@go run ./cmd/mmsb/generate build/share $(VERSION)
	@touch $@

.PHONY: install
install: lib tool ## library, header, CMake and pkg-config files, the tool with manual page and completions into PREFIX=
	@tools/install.sh "$(PREFIX)"

DIST := build/libmmsb-$(VERSION).tar.gz
.PHONY: dist
dist: ## the source in one archive, which builds without git
	@tools/dist.sh $(DIST) libmmsb-$(VERSION)

.PHONY: deb
deb: lib tool venv ## build/deb/*.deb: the library, what C and C++ need, the tool, the Python package; for this machine's Debian
	@tools/build_debs.sh build/deb $(VERSION)

# Where both are made, the library comes first: the wheel's then finds the standard library compiled.
.PHONY: wheel
wheel: $(STAMPS)/wheel ## build/wheel/*.whl for every glibc from 2.28 on
$(STAMPS)/wheel: $(LIBRARY_SOURCES) $(TOOL_SOURCES) $(KERNELS) $(STAMPS)/cuda-setting \
    $(shell find bindings/python -name '*.py' -o -name '*.toml') \
    $(wildcard tools/*wheel.sh tools/zig_cc.sh tools/build_library.sh tools/go-overlay/*) $(STAMPS)/venv-wheel \
    | $(SECOND_BUILD)
	@tools/build_wheel.sh build/wheel $(VERSION)
	@touch $@

.PHONY: wheel-arm64
wheel-arm64: $(STAMPS)/venv-wheel $(STAMPS)/arm64 $(KERNELS) ## build/wheel-arm64/*.whl, on any machine
	@MMSB_MACHINE=aarch64 tools/build_wheel.sh build/wheel-arm64 $(VERSION)

# --------------------------------------------------------------------------------------------------- checks ----

CHECKED := lib $(STAMPS)/venv-check $(STAMPS)/venv-test
VETTED := lib $(STAMPS)/staticcheck

.PHONY: check
check: $(CHECKED) $(VETTED) ## format, static analysis, types, house rules
	@tools/check.sh rules vet

.PHONY: check-rules
check-rules: $(CHECKED)
	@tools/check.sh rules

.PHONY: vet
vet: $(VETTED) ## what go vet and staticcheck say of the Go packages
	@tools/check.sh vet

.PHONY: fmt
fmt: $(STAMPS)/venv-check ## format Go, C and Python
	@gofmt -w $(GO_ROOMS)
	@$(CHECK)/clang-format -i $(C_FILES)
	@$(CHECK)/ruff format --quiet --no-cache --config tools/ruff.toml $(PYTHON_FILES)
	@cd bindings/python && ../../$(CHECK)/ruff format --quiet --no-cache src tests hatch_build.py

.PHONY: generate
generate: $(STAMPS)/venv-check ## write anew what repeats include/mmsb.h: the bindings' tables, Go's constants, layouts, symbols
	@$(CHECK)/python tools/generate_interface.py

.PHONY: abi-check
abi-check: lib $(STAMPS)/abigail ## exported symbols and types against abi/
	@tools/abi.sh check

.PHONY: abi-update
abi-update: lib $(STAMPS)/abigail ## write the types in abi/ anew from the built library
	@tools/abi.sh update

# ---------------------------------------------------------------------------------------------------- tests ----

.PHONY: test
test: ## every suite; the last line adds them up
	@python3 tools/test_runner.py

# `make INPUTS_ONLY=yes SUITE...` makes what the suites need, but runs none of them.
ifdef INPUTS_ONLY
$(MAKECMDGOALS): private SHELL := true
endif

# The stand-in for NVIDIA's driver library. gpu/cuda's tests find it there.
FAKECUDA := build/fakecuda/libcuda.so.1
$(FAKECUDA): tests/fakecuda/library/fakecuda.c kernels/host.c $(wildcard native/bytes*.c) native/checksum.c \
    $(wildcard kernels/*.h) $(wildcard native/bytes*.h) tests/fakecuda/fakecuda.h gpu/cuda/abi.h \
    $(STAMPS)/cuda-headers
	@mkdir -p $(@D)
	@gcc -std=gnu11 -D_GNU_SOURCE $(C_FLAGS) -fPIC -shared -fvisibility=hidden -isystem $(CUDA_HEADERS) $(filter %.c,$^) -o $@ \
	    -Wl,-soname,libcuda.so.1,--no-undefined

# Compilers and tests that collect garbage less often take a tenth less processor time.
check check-rules vet test-go test-race race test-mutants mutants test-fuzz: export GOGC := 400

# `go test` vets what it tests. `make check` does so for the packages as they are; with other tags, `go test` does.
.PHONY: test-go
test-go: $(STAMPS)/tools $(FAKECUDA) ## the Go packages
	@python3 tools/go_test.py -vet=off ./...

.PHONY: test-race
test-race: $(STAMPS)/tools $(FAKECUDA) ## a share of the Go packages under the race detector, or none (the commit says which)
	@share=$$(tools/share.py $(LONG_RACES) / \
	    $$(go list $(RACED) | grep -vxE '$(BY_NAME)|libmmsb/core/.*') / \
	    $$(go list $(RACED) | grep -vxE '$(BY_NAME)' | grep -x 'libmmsb/core/.*') /); \
	if [[ -n $$share ]]; then $(RACE) $$share; else echo "not run: this commit has test-asan instead"; fi

space := $() $()
# Shares that take about as long as all others of core, or all others, or AddressSanitizer, which is the last one. IN_TURN in
# tools/test_runner.py evens out what is left.
LONG_RACES := libmmsb/core/keeper libmmsb/core/snapshot libmmsb/core/file / libmmsb/core/persist / libmmsb/gpu/runtime
BY_NAME := $(subst $(space),|,$(filter-out /,$(LONG_RACES)))
RACED := $(patsubst %,./%/...,$(filter core gpu nccl transfer,$(GO_ROOMS)))
RACE := python3 tools/go_test.py -race -buildmode=exe -tags $(TAGS),invariants

.PHONY: race
race: $(STAMPS)/tools $(FAKECUDA) ## all Go packages under the race detector, with the tag invariants
	@$(RACE) $(RACED)

.PHONY: test-mutants
test-mutants: $(STAMPS)/tools lib $(STAMPS)/venv ## a tenth of the bugs planted in copies of the source (the commit says which)
	@python3 tests/mutations/run.py --share

.PHONY: mutants
mutants: $(STAMPS)/tools lib $(STAMPS)/venv ## all planted bugs (tests/mutations)
	@python3 tests/mutations/run.py

.PHONY: every-bit
every-bit: $(STAMPS)/tools ## each bit of a journal, flipped by itself
	@MMSB_EVERY_BIT=1 python3 tools/go_test.py -vet=off -run 'TestEveryFlippedBit$$' ./core/journal

.PHONY: whole
whole: race test-asan every-bit mutants vet test-julia-one test-peers test-pictures test-jax test-docs test-gpu-bundle \
    test-deb test-dist test-wheel test-julia-package test-arm64 build/c/fuzz.run build/c/cancel_test.c.run \
    build/tsan/capture_test.c.run ## what `make test` has a part of
	@tools/fuzz.sh 300000 $(SEED)
	@build/c/cancel_test.c.run
	@build/tsan/capture_test.c.run threads $(or $(SEED),1)

HOURS ?= 2
.PHONY: campaign
campaign: build/c/fuzz.run build/crash/campaign build/crash/worker ## long random tests in turn, HOURS=2; SEED= is the first round
	@tools/campaign.sh $(HOURS) $(SEED)

SCHEDULES ?= 1000000
.PHONY: simulate
simulate: $(STAMPS)/tools ## all device programs of two streams, and SCHEDULES=1000000 of eight; SEED= repeats a run
	@MMSB_EVERY=1 MMSB_SCHEDULES=$(SCHEDULES) MMSB_SEED=$(SEED) \
	    go test -v -tags $(TAGS),invariants -timeout 60m -run 'Interleavings|Schedule' ./gpu/runtime

PROGRAMS ?= 34000
.PHONY: pools
pools: $(STAMPS)/tools ## PROGRAMS=34000 random programs of a pool's user, ten million operations; SEED= is the first one
	@MMSB_PROGRAMS=$(PROGRAMS) MMSB_SEED=$(or $(SEED),0) go test -v -timeout 0 -count 1 -run TestRandomPrograms ./core/pool

STORES ?= 5000
.PHONY: stores
stores: $(STAMPS)/tools ## STORES=5000 random programs of a store's user and its followers against a model; SEED= is the first one
	@go test -tags $(TAGS),invariants -timeout 0 -count 1 -run 'TestRandom' ./core/keeper \
	    -args -programs $(STORES) -from $(or $(SEED),0)

HISTORIES ?= 10000
.PHONY: histories
histories: $(STAMPS)/tools ## HISTORIES=10000 random histories of files and journals against a model; SEED= is the first one
	@go test -tags $(TAGS),invariants -timeout 0 -count 1 -run 'TestRandomHistories' ./core/persist \
	    -args -histories $(HISTORIES) -from $(or $(SEED),0)

FILES ?= 10000000
.PHONY: fuzz-files
fuzz-files: $(STAMPS)/tools ## FILES=10000000 lying files of each format, given to every reader; SEED= is the first one
	@go test -timeout 0 -count 1 -v -run 'TestReadersOf' ./cmd/mmsb/internal/files -args -files $(FILES) -from $(or $(SEED),0)

# Every tests/c/*_test.c and .cpp is one program that prints `N passed, M failed`, and so is tests/c/fuzz. Those that include
# test_hooks.h, and the fuzz, get the library with the test hooks and assertions, the others the one that is shipped. Under
# AddressSanitizer all get one build with the hooks, and asan_test.c is one of them; cancel_test.c measures times, which mean
# nothing there.
C_TESTS := $(patsubst tests/c/%,%,$(wildcard tests/c/*_test.c tests/c/*_test.cpp)) fuzz
FUZZ := $(wildcard tests/c/fuzz/*.c)
C_TEST_INPUTS := tests/check.h $(wildcard tests/c/*.h) include/mmsb.h include/mmsb.hpp build/test/libsecond.so
C_TEST_FLAGS := $(C_FLAGS) -Itests/c -DSECOND_LIBRARY='"$(CURDIR)/build/test/libsecond.so"'
compile_c = mkdir -p $(@D) && $(if $(filter %.cpp,$<),g++ -std=c++17,gcc -std=gnu11) $(C_TEST_FLAGS)
hooked = $(if $(shell grep -l test_hooks.h $<),build/test,build)
with_asan = -fsanitize=address $(if $(filter %/asan_test.c,$<),,-O0)
with_library = -L$(1) -lmmsb -ldl -lm -Wl,-rpath,$(CURDIR)/$(1)

# Libraries for tests check what must always hold: the tag invariants in Go, MMSB_INVARIANTS in C.
INVARIANTS := -DMMSB_INVARIANTS
ASSERTING := mmsbtest,invariants
build/test/libmmsb.so: build/libmmsb.so
	@CGO_CFLAGS="$(CGO_CFLAGS) $(INVARIANTS)" tools/build_library.sh $@ -tags $(ASSERTING)
build/asan/libmmsb.so: build/libmmsb.so
	@CGO_CFLAGS="$(CGO_CFLAGS) $(INVARIANTS)" tools/build_library.sh $@ -tags $(ASSERTING) -asan
build/test/libsecond.so: $(wildcard tests/c/second/*) $(STAMPS)/tools | $(FIRST_BUILD)
	@go build -buildmode=c-shared -o $@ ./tests/c/second

build/c/%.run: tests/c/% $(C_TEST_INPUTS) build/libmmsb.so build/test/libmmsb.so
	@$(compile_c) $< -o $@ $(call with_library,$(hooked))
# AddressSanitizer's checks compile four times as fast where nothing is optimized; what warns then has warned in the other build,
# which asan_test.c does not have.
build/c-asan/%.run: tests/c/% $(C_TEST_INPUTS) build/asan/libmmsb.so
	@$(compile_c) $(with_asan) $< -o $@ $(call with_library,build/asan)

# Rules of their own: tests/c/fuzz is a folder, which the pattern above would take for the program.
build/c/fuzz.run: $(FUZZ) tests/c/fuzz/fuzz.h $(C_TEST_INPUTS) build/test/libmmsb.so
	@$(compile_c) $(FUZZ) -o $@ $(call with_library,build/test)
build/c-asan/fuzz.run: $(FUZZ) tests/c/fuzz/fuzz.h $(C_TEST_INPUTS) build/asan/libmmsb.so
	@$(compile_c) $(with_asan) $(FUZZ) -o $@ $(call with_library,build/asan)

.PHONY: test-c
test-c: $(patsubst %,build/c/%.run,$(filter-out asan_test.c,$(C_TESTS))) ## the C ABI from C and C++
	@tools/run_programs.sh $(filter-out %/cancel_test.c.run,$^)
	@build/c/cancel_test.c.run 0 $$(tools/share.py 1 / 2 / 3)

.PHONY: test-asan
test-asan: $(patsubst %,build/c-asan/%.run,$(filter-out cancel_test.c,$(C_TESTS))) ## under AddressSanitizer, library included
	@ASAN_OPTIONS=detect_leaks=0 tools/run_programs.sh $^
	@CGO_CFLAGS="$(CGO_CFLAGS) $(INVARIANTS)" \
	    python3 tools/go_test.py -vet=off -tags $(TAGS),$(ASSERTING) -asan ./gpu/kernels

# native/ without Go: each native/tests/*_test.c with the C files that do not call into Go. gcc warns of
# fences, which ThreadSanitizer does not model: -Wno-tsan.
NATIVE_TESTS := $(patsubst native/tests/%,%,$(wildcard native/tests/*_test.c))
NATIVE_FILES := $(shell grep -L _cgo_export.h native/*.c)
NATIVE_OBJECTS := $(NATIVE_FILES:native/%.c=build/tsan/%.o)
NATIVE_HEADERS := $(wildcard native/*.h) tests/check.h include/mmsb.h
compile_native = mkdir -p $(@D) && gcc -std=gnu11 $(C_FLAGS) -O1 $(INVARIANTS) -Inative
with_threads := -fsanitize=thread -Wno-tsan
$(NATIVE_OBJECTS): build/tsan/%.o: native/%.c $(NATIVE_HEADERS)
	@$(compile_native) $(with_threads) -c $< -o $@
build/tsan/%.run: native/tests/% $(NATIVE_OBJECTS) $(NATIVE_HEADERS) $(wildcard native/tests/*.h)
	@$(compile_native) $(with_threads) $< $(NATIVE_OBJECTS) -o $@ -ldl -lm
# It has one thread: ThreadSanitizer would see nothing, and take twenty times as long.
build/tsan/bytes_test.c.run: $(wildcard native/bytes*.c) native/checksum.c native/tests/bytes_test.c $(NATIVE_HEADERS)
	@$(compile_native) $(filter %.c,$^) -o $@

EXPORTS ?= 1000000
.PHONY: tensors
tensors: build/c/tensor_test.c.run build/c-asan/tensor_test.c.run ## EXPORTS=1000000 tensors that eight threads hand on, twice
	@build/c/tensor_test.c.run storm $(EXPORTS)
	@ASAN_OPTIONS=detect_leaks=0 build/c-asan/tensor_test.c.run storm $(EXPORTS)

.PHONY: test-tsan
test-tsan: $(NATIVE_TESTS:%=build/tsan/%.run) ## native/ alone under ThreadSanitizer
	@tools/run_programs.sh $^

# These need the compiled kernels, whatever MMSB_CUDA says.
.PHONY: test-kernels
test-kernels: $(KERNEL_ARCHIVE) ## the kernels: what the archive holds, what the compiler says, their host build
	@grep -E "Compiling|Used|spill" build/kernels/report.txt
	@python3 tools/go_test.py -vet=off -tags $(TAGS),mmsbcuda ./gpu/kernels

.PHONY: test-fuzz
test-fuzz: build/c/fuzz.run ## CALLS=100000 random calls of the C ABI against a model; SEED= repeats a run
	@tools/fuzz.sh $(CALLS) $(SEED)

# The campaign kills workers; only these are linked with the library.
CRASH_FLAGS := -std=gnu11 -D_GNU_SOURCE $(C_FLAGS)
CRASH_TESTS := disk_test.run luck_test.run undurable_test.run
CRASH_HEADERS := tests/check.h $(wildcard tests/crash/*.h) include/mmsb.h
build/crash/campaign: $(patsubst %,tests/crash/%.c,campaign trace disk files) $(CRASH_HEADERS)
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $(filter %.c,$^) -o $@
build/crash/worker: tests/crash/worker.c tests/crash/threads.c tests/crash/workload.c $(CRASH_HEADERS) build/libmmsb.so
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $(filter %.c,$^) -o $@ $(call with_library,build)
build/crash/luck_test.run build/crash/undurable_test.run: build/crash/%.run: tests/crash/%.c tests/check.h tests/c/library.h \
    tests/c/folder.h include/mmsb.h build/libmmsb.so
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $< -o $@ $(call with_library,build)
build/crash/disk_test.run: $(patsubst %,tests/crash/%.c,disk_test disk files) $(CRASH_HEADERS)
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $(filter %.c,$^) -o $@

.PHONY: test-crash
test-crash: $(addprefix build/crash/,campaign worker $(CRASH_TESTS)) ## kills and power cuts while saving; bad luck
	@tools/run_programs.sh $(addprefix build/crash/,$(CRASH_TESTS))
	@build/crash/campaign 50 $(SEED)

# Rows of strange systems; and a soak of seconds.
build/systems/systems_test.run: tests/systems/systems_test.c tests/systems/work.c tests/systems/work.h tests/check.h \
    include/mmsb.h build/libmmsb.so
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $(filter %.c,$^) -o $@ $(call with_library,build)

build/systems/soak.run: tests/systems/soak.c tests/check.h tests/c/library.h include/mmsb.h build/libmmsb.so
	@mkdir -p $(@D)
	@gcc $(CRASH_FLAGS) $< -o $@ $(call with_library,build)

.PHONY: test-systems
test-systems: $(addprefix build/systems/,systems_test.run soak.run) ## denied and failing calls, limits, full disks; a soak
	@tools/run_programs.sh $^

.PHONY: soak
soak: build/systems/soak.run ## everything mixed for HOURS=2, and all that is counted must stay flat; SEED= repeats a run
	@build/systems/soak.run $$(awk 'BEGIN { print $(HOURS) * 3600 }') $(SEED)

.PHONY: crash
crash: build/crash/campaign build/crash/worker ## the same RUNS=2000 times; SEED= repeats a run
	@build/crash/campaign $(RUNS) $(SEED)

.PHONY: test-python
test-python: lib $(STAMPS)/venv-test ## the Python package
	@cd bindings/python && ../../$(VENV)/python -m pytest -q -p no:cacheprovider

$(STAMPS)/chromium: tools/fetch_chromium.sh tools/extract_debs.sh
	@mkdir -p $(STAMPS)
	@tools/fetch_chromium.sh
	@touch $@

.PHONY: test-pictures
test-pictures: lib build/mmsb $(STAMPS)/venv-test $(STAMPS)/chromium ## pictures of memory, in a headless Chromium
	@cd tests/pictures && ../../$(VENV)/python -m pytest -q -p no:cacheprovider

.PHONY: test-docs
test-docs: docs $(STAMPS)/chromium ## the documentation as HTML: what it must have, and how it looks in a headless Chromium
	@PYTHONPATH=docs/site:tools:tests/pictures:bindings/python/src \
	    build/venv-docs/bin/python -m pytest -q -p no:cacheprovider tests/docs

# JULIA_TESTS(threads, files): tests of the Julia package, compiled at the level that the number of threads says.
define JULIA_TESTS
@JULIA_NUM_THREADS=$(1) JULIA_DEPOT_PATH=$(CURDIR)/build/julia-depot \
    $(JULIA) --optimize=$(1) --project=bindings/julia bindings/julia/test/runtests.jl $(2)
endef
JULIA_FILES := $(filter-out runtests.jl,$(notdir $(wildcard bindings/julia/test/*.jl)))

.PHONY: test-julia
test-julia: lib $(STAMPS)/julia ## the Julia package with two threads, a third of its files with one, too (the commit says which)
	$(call JULIA_TESTS,2)
	$(call JULIA_TESTS,1,$$(tools/share.py $(wordlist 1,9,$(JULIA_FILES)) / $(wordlist 10,18,$(JULIA_FILES)) / \
	    $(wordlist 19,99,$(JULIA_FILES))))

.PHONY: test-julia-one
test-julia-one: lib $(STAMPS)/julia ## the Julia package with one thread and optimized less
	$(call JULIA_TESTS,1)

# Other libraries, with the stand-in in the place of NVIDIA's driver.
.PHONY: test-peers
test-peers: lib $(FAKECUDA) $(STAMPS)/venv-peers ## cuda.core and Numba with memory of the library
	@LD_LIBRARY_PATH=build/fakecuda PYTHONPATH=bindings/python/src \
	    build/venv-peers/bin/python -m pytest -q -p no:cacheprovider tests/peers

.PHONY: test-jax
test-jax: lib $(STAMPS)/venv-jax ## JAX's and pyarrow's arrays as pages, and pages as theirs, on the host
	@PYTHONPATH=bindings/python/src build/venv-jax/bin/python -m pytest -q -p no:cacheprovider tests/arrays

.PHONY: test-torch
test-torch: lib build/mmsb $(STAMPS)/venv-torch ## PyTorch on the host, and torch.distributed.checkpoint; 4 GB
	@PYTHONPATH=bindings/python/src build/venv-torch/bin/python -m pytest -q -p no:cacheprovider tests/torch

# What PyTorch's own savers take, by hand: not a part of bench.
.PHONY: bench-torch
bench-torch: lib $(STAMPS)/venv-torch ## a state of tensors beside torch.save, safetensors and torch.distributed.checkpoint; 5 GB
	@mkdir -p build/bench-files && trap 'rm -rf build/bench-files' EXIT && BENCH_FILES=$(CURDIR)/build/bench-files \
	    MMSB_LIBRARY=$(CURDIR)/build/libmmsb.so PYTHONPATH=bindings/python/src \
	    build/venv-torch/bin/python bench/tensors.py >build/bench-torch.jsonl
	@python3 bench/table.py build/bench-torch.jsonl build/bench-torch.json

.PHONY: test-examples
test-examples: lib $(STAMPS)/venv-test ## the replay of a generated git history, also killed and restored; planted mistakes
	@$(VENV)/python -m pytest -q -p no:cacheprovider examples

.PHONY: test-quickstarts
test-quickstarts: lib $(STAMPS)/venv $(STAMPS)/julia ## the README's programs and the quickstarts
	@examples/run_quickstarts.sh

.PHONY: test-install
test-install: lib ## find_package, pkg-config and add_subdirectory with a small consumer
	@tests/install/run.sh

.PHONY: test-wheel
test-wheel: wheel ## the wheel in a clean environment
	@tests/install/wheel.sh

.PHONY: test-dist
test-dist: lib ## the source archive, unpacked and built where there is no git
	@tests/install/dist.sh

.PHONY: test-deb
test-deb: deb $(STAMPS)/lintian ## lintian, and the Debian packages in a root of their own
	@tests/install/deb.sh

.PHONY: test-julia-package
test-julia-package: lib $(STAMPS)/julia ## the Julia package's build step, by Pkg in a depot of its own
	@tests/install/julia.sh

.PHONY: test-arm64
test-arm64: wheel-arm64 venv ## the wheel for arm64 under an emulator
	@tests/install/arm64.sh

# An interpreter that has PyTorch, CuPy or RMM runs their examples, too.
# Other libraries are downloaded where there is a device of NVIDIA's: elsewhere no test reaches them.
PEERS_VENV := $(if $(wildcard /dev/nvidiactl /dev/dxg),venv-peers,venv)
PEERS_PYTHON ?= build/$(PEERS_VENV)/bin/python

# Tests that ask for simulated devices, and get the GPU: those that need but one, with as much memory as it has.
ON_GPU := $(patsubst %,build/c-gpu/%_test.c.run,kernels commands commands_random groups guard)
build/c-gpu/%.run: tests/c/% tests/gpu/on_gpu.h $(C_TEST_INPUTS) build/libmmsb.so
	@$(compile_c) -include tests/gpu/on_gpu.h $< -o $@ $(call with_library,build)

.PHONY: test-gpu
test-gpu: $(KERNEL_ARCHIVE) build/c/places_test.c.run $(ON_GPU) $(STAMPS)/$(PEERS_VENV) ## what needs a GPU
	@python3 tools/go_test.py -tags $(TAGS),gpu,mmsbcuda -run '^TestGPU' ./gpu/cuda
	@MMSB_TEST_GPU=1 tools/run_programs.sh build/c/places_test.c.run
	@CHECK_APART=100 tools/run_programs.sh $(ON_GPU)
	@PYTHONPATH=bindings/python/src $(PEERS_PYTHON) tests/peers/run_examples.py
	@PYTHONPATH=bindings/python/src $(PEERS_PYTHON) tests/gpu/frameworks.py

$(STAMPS)/cuda-sanitizer: tools/requirements/cuda-sanitizer.txt $(STAMPS)/venv
	@rm -rf build/cuda/sanitizer
	@$(VENV)/python $(PIP) --no-deps --target build/cuda/sanitizer -r tools/requirements/cuda-sanitizer.txt
	@touch $@

GPU_BUNDLE := build/gpu-bundle/mmsb-gpu-bundle-$(shell uname -m).tar.xz
.PHONY: gpu-bundle
gpu-bundle: $(GPU_BUNDLE) ## one archive that checks and measures the library on any machine with a GPU
$(GPU_BUNDLE): $(STAMPS)/wheel $(STAMPS)/cuda-sanitizer tools/gpu_bundle.sh \
    $(wildcard tests/gpu/*.sh tests/gpu/*.py tests/c/*.h bench/*.c bench/*.h gpu/cuda/*.go gpu/driver/conformance/*.go) \
    tests/c/places_test.c
	@tools/gpu_bundle.sh $@ $(VERSION)

.PHONY: test-gpu-bundle
test-gpu-bundle: $(GPU_BUNDLE) $(FAKECUDA) ## that archive in a bare root, on a stand-in for the driver
	@tests/gpu/bundle.sh $(GPU_BUNDLE)

.PHONY: fresh-test
fresh-test: ## the README's two commands in a bare Debian 12
	@tools/fresh_test.sh

# --------------------------------------------------------------------------------------------- to look at ----

.PHONY: demo
demo: all $(STAMPS)/julia ## a git history (REPO=folder) becomes pages, is killed and restored, and checked; the quickstarts
	@if command -v git > /dev/null; then \
	    $(VENV)/python examples/replay_git.py $(REPO) && $(VENV)/python examples/kill_replay.py $(REPO); \
	else \
	    echo "git is not on PATH: no replay of a git history, which needs it"; \
	fi
	@examples/run_quickstarts.sh

.PHONY: bench
bench: all ## speed against the peers
	@bench/run.sh

# Sphinx knows what has changed.
.PHONY: docs
docs: build/mmsb $(STAMPS)/venv-docs ## build/docs/index.html: the documents, and the reference of each language
	@build/venv-docs/bin/python docs/site/build.py

.PHONY: clean
clean: ## removes build/
	@if [ -d build ]; then chmod -R u+w build; rm -rf build; fi
