# The commands of a developer. `make test` is the gate of each commit; it installs the tools that it
# needs into .deps/, which git ignores.

.PHONY: help test nightly deps fmt lint build release unit histories loom interop bench clean-deps

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

test: ## Formatting, lints, unit tests, and tests against real drivers and Cassandra
	@interop/scripts/test.sh

nightly: ## `make test` with all random cases and stages, and always the checks of the trie
	@NIGHTLY=1 interop/scripts/test.sh

deps: ## What the interop tests need: a Python environment and Cassandra's jars, in .deps/
	@interop/scripts/install_python.sh
	@interop/scripts/install_cassandra.sh

fmt: ## Format the code
	cargo fmt --all

lint: ## Formatting and clippy, warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

build: ## A build for debugging
	cargo build

release: ## The binary as it is meant to run: target/release/espalier
	cargo build --release

unit: ## Tests that need nothing but cargo, with five random cases each (TEST_CASES=N)
	cargo test --workspace --lib --bins --tests --no-run
	TEST_CASES=$${TEST_CASES:-5} PROPTEST_CASES=$${PROPTEST_CASES:-8} interop/scripts/unit_tests.sh

histories: ## Two million steps of random histories of indexes and views, in a release build
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
		TEST_CASES=$${TEST_CASES:-2500} cargo test --release --target-dir target/histories \
		--package espalier-cql --test all histories

loom: ## What the trie's readers and writer agree on, under all interleavings
	RUSTFLAGS="--cfg loom" cargo test --quiet --release --package espalier-trie --lib \
		--target-dir target/loom interleavings

interop: release ## Tests against real drivers and Cassandra only
	@interop/scripts/install_python.sh
	@interop/scripts/install_cassandra.sh
	.deps/venv/bin/python -m pytest interop --numprocesses auto \
		--dist loadgroup --no-loadscope-reorder

bench: release ## Start-up time and idle memory of this build
	@bench/start_up.sh

clean-deps: ## Forget what was installed into .deps/
	rm -rf .deps
