# The front door. `make help` lists the targets; CMakePresets.json says what each build consists of.
#
# Every target that builds runs scripts/setup first, which installs what is missing on Debian 12
# and returns at once when nothing is.

.DEFAULT_GOAL := build
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

PREFIX ?= /usr/local
STEP := scripts/step
SETUP := scripts/setup
BUILD := scripts/build
TEST := scripts/run-tests
MINUTES ?= 30

.PHONY: build demo test test-quick dev asan tsan stalls clang aarch64 soak install
.PHONY: bench bench-quick bench-diff bench-instructions bench-parts
.PHONY: format format-check tidy setup clean help

build: ## build the library, the tool, the examples and the tests (release)
	@$(SETUP)
	@$(STEP) "build release" $(BUILD) release

demo: build ## show what the library does
	@build/release/bin/weft demo

test-quick: build ## run all tests of the release build
	@$(STEP) "test release" $(TEST) release

# Each sanitizer runs the rooms it has most to say about, and clang compiles the library and the
# tool; `make asan`, `make tsan` and `make clang` do all.
test: test-quick ## all tests (release), the core under both sanitizers, and a clang build
	@$(STEP) "build asan (core)" $(BUILD) asan weft_sanitize_tests
	@WEFT_TEST_SCALE=small $(STEP) "test asan (core)" $(TEST) asan -L sanitize
	@$(STEP) "build tsan (core)" $(BUILD) tsan weft_sanitize_tests
	@WEFT_TEST_SCALE=small $(STEP) "test tsan (core)" $(TEST) tsan -L sanitize
	@$(STEP) "build clang (no tests)" $(BUILD) clang weft_cli

dev asan tsan clang: ## build one of these presets and run all its tests
	@$(SETUP)
	@$(STEP) "build $@" $(BUILD) $@
	@$(STEP) "test $@" $(TEST) $@

stalls: ## run the protocols' tests with threads that stall at random at atomic operations
	@$(SETUP)
	@$(STEP) "build stalls" $(BUILD) stalls test_wait test_task test_sync test_sched test_time
	@$(STEP) "test stalls" $(TEST) stalls -R '^(wait|task|sync|sched|time)\.'

aarch64: ## cross-compile for aarch64 and run the tests under qemu-user
	@$(SETUP) --soak
	@$(STEP) "build aarch64" $(BUILD) aarch64
	@WEFT_TEST_SCALE=$${WEFT_TEST_SCALE:-small} $(STEP) "test aarch64" $(TEST) aarch64

soak: ## hours: all at large scale, each sanitizer for MINUTES (30) at least; stalls; aarch64
	@$(SETUP) --soak
	@WEFT_TEST_SCALE=large $(MAKE) test-quick
	@$(STEP) "build asan" $(BUILD) asan
	@WEFT_TEST_SCALE=large $(STEP) "soak asan" scripts/soak asan $(MINUTES)
	@$(STEP) "build tsan" $(BUILD) tsan
	@WEFT_TEST_SCALE=large $(STEP) "soak tsan" scripts/soak tsan $(MINUTES)
	@$(MAKE) stalls
	@WEFT_TEST_SCALE=small $(MAKE) aarch64

bench: ## measure weft beside its peers (BENCH=regex picks some); report in build/bench/report.html
	@$(SETUP) --bench
	@tools/bench --pick "$${BENCH:-.}"

bench-quick: ## the same with the most telling dozen, under five minutes
	@$(SETUP) --bench
	@tools/bench --quick --pick "$${BENCH:-.}"

bench-diff: ## what changed since the last run (COMMIT=x: since the last run of that commit)
	@tools/bench --diff $(COMMIT)

bench-instructions: ## count the instructions of hot paths and keep them as the new measure
	@$(SETUP) --bench
	@tools/bench --instructions record

bench-parts: build ## the benchmarks of single parts (BENCH=regex picks some)
	@scripts/bench build/release

install: build ## install to PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

format: ## lay out all C++ files with clang-format
	@$(SETUP)
	@scripts/format

format-check: ## fail if `make format` would change a file
	@scripts/format --check

tidy: ## check the style rules that clang-format does not know
	@tools/tidy

setup: ## install what is missing
	@$(SETUP)

clean: ## remove all build directories
	@rm -rf build

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9 -]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' Makefile
