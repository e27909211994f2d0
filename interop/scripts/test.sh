#!/usr/bin/env bash
# Runs all tests, step by step, also after a failure, and prints the sum: `N passed, N failed`.
#
# A step whose tools are missing is left out, and the end of the output names it. Settings by
# environment:
#   STEPS="lint unit"   run only these of: format lint prepare unit loom instructions interop; or
#                       `release`, which runs only on request: it builds the shipped binary, and the
#                       interop tests then use that
#   PYTEST_ARGUMENTS    more arguments for pytest
#   NIGHTLY=1           run the checks of the trie even if the code that they cover did not change,
#                       all random cases instead of a tenth, and all cases of the interop tests
#   TEST_SEED=N         the first seed of the random cases; otherwise from the day of the last
#                       commit
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

passed=0
failed=0
left_out=()
failures=()
log=$(mktemp)
trap 'rm -f "$log" "$log.python" "$log.cassandra"' EXIT
# Two successive days are at least a thousand seeds apart.
day=$(git log -1 --format=%cd --date=format:%Y%m%d 2> /dev/null || echo 0)
TEST_SEED=${TEST_SEED:-$((day * 1009))}
export TEST_SEED
steps=${STEPS:-format lint prepare unit loom instructions interop}
count=$(wc -w <<< "$steps")
number=0
# Many tests wait for a sync, a timer or a start, so two more processes than cores keep them busy.
processes=$(($(nproc 2> /dev/null || echo 2) + 2))

has() { command -v "$1" > /dev/null 2>&1; }
begin() { number=$((number + 1)); step_began=$SECONDS; echo "=== $number/$count $1"; }
end() { echo "=== $number/$count took $((SECONDS - step_began)) s"; }
leave_out() { left_out+=("$*"); echo "left out: $*"; }

# Succeeds if a commit within a day before HEAD changed code in one of the paths, or if the checkout
# has such a change. A line that is empty or only a comment is no code. The answer depends on HEAD
# and the checkout, not on the clock, so a run can be repeated.
changed_lately() { # paths...
  local code='^[[:space:]]*([^/#[:space:]]|/[^/]|#\[)' newest head
  [ -z "${NIGHTLY:-}" ] || return 0
  head=$(git log -1 --format=%ct 2> /dev/null) || return 0
  [ -z "$(git diff HEAD --name-only -G"$code" -- "$@")" ] || return 0
  newest=$(git log -1 -G"$code" --format=%ct -- "$@")
  [ $((head - ${newest:-0})) -lt 86400 ]
}

# Runs a step that is one test.
check() { # name, command...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); failures+=("$name"); fi
}

# Adds up the `N WORD` of the lines that match.
sum_of() { # pattern of the line, word
  grep -E "$1" "$log" | grep -oE "[0-9]+ $2" | awk '{ sum += $1 } END { print sum + 0 }'
}

# Runs a step of many tests. Counts the tests in the step's output, or one failure if the step fails
# and its output has no failure.
count_tests() { # name, pattern of summary lines, command...
  local name=$1 pattern=$2 status good bad
  shift 2
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  good=$(sum_of "$pattern" passed)
  bad=$(sum_of "$pattern" '(failed|error|errors)')
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  [ "$bad" -eq 0 ] || failures+=("$name")
}

# Runs cargo with clippy's driver as the compiler, which lints what it compiles. `cargo clippy`
# would check all crates first, and the tests would compile them again. `cargo clippy` passes `-D
# warnings` to the driver in CLIPPY_ARGS, too.
linting() {
  if has clippy-driver; then
    RUSTC_WORKSPACE_WRAPPER=$PWD/interop/scripts/lint_once.sh CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ "$@"
  else
    "$@"
  fi
}

format() { begin "formatting"; check "formatting" cargo fmt --all --check; }
lint() {
  begin "lints and build"
  has clippy-driver || leave_out "lints: there is no clippy-driver (rustup component add clippy)"
  check "lints and build" linting cargo test --quiet --workspace --all-targets --no-run
}
unit() {
  begin "unit tests"
  export PROPTEST_RNG_SEED=$TEST_SEED
  # No setting of the caller's environment changes a snapshot.
  export INSTA_UPDATE=no
  # Properties without a number of cases of their own have 256.
  [ -n "${NIGHTLY:-}" ] || export PROPTEST_CASES=26
  echo "random cases: $([ -n "${NIGHTLY:-}" ] && echo all || echo a tenth), from seed $TEST_SEED"
  count_tests "unit tests" '^test result:' linting interop/scripts/unit_tests.sh
  [ -n "${NIGHTLY:-}" ] || leave_out "nine tenths of the random cases (make nightly runs them)"
}
release() {
  begin "release build"
  check "release build" cargo build --quiet --release
  export ESPALIER_BINARY=$PWD/target/release/espalier
}

# Starts the installations in the background, because they mostly wait for the network, while the
# build needs the cores. Sets `why_no_python` or `why_no_cassandra` if a tool is missing.
start_installing() {
  why_no_python="" why_no_cassandra=""
  if ! has python3 || ! python3 -c 'import venv, ensurepip' 2> /dev/null; then
    why_no_python="they need python3 with venv"
  else
    interop/scripts/install_python.sh > "$log.python" 2>&1 &
    python_installer=$!
  fi
  if ! has javac || ! has mvn; then
    why_no_cassandra="no JDK (11 or 17) or no Maven"
  else
    interop/scripts/install_cassandra.sh > "$log.cassandra" 2>&1 &
    cassandra_installer=$!
  fi
}

# Waits for an installation, prints its output and counts a failure.
installed() { # name, process, file of its output
  local status
  wait "$2" && status=0 || status=$?
  cat "$3"
  [ "$status" -eq 0 ] || { failed=$((failed + 1)); failures+=("installing $1"); }
  return "$status"
}

# Waits for the installations; runs before the unit tests, because some of them ask Cassandra's own
# code. Sets WITHOUT_PYTHON, so that the interop tests are left out, or WITHOUT_CASSANDRA, so that
# the tests with Cassandra skip, if the installation is not possible.
prepare() {
  begin "what the tests need"
  if [ -n "$why_no_python" ]; then
    leave_out "all interop tests: $why_no_python"
    export WITHOUT_PYTHON=1
  elif ! installed "the Python environment" "$python_installer" "$log.python"; then
    export WITHOUT_PYTHON=1
  fi
  if [ -n "$why_no_cassandra" ]; then
    leave_out "tests against Cassandra and the Java driver: $why_no_cassandra"
    export WITHOUT_CASSANDRA=$why_no_cassandra
  elif ! installed "Cassandra" "$cassandra_installer" "$log.cassandra"; then
    export WITHOUT_CASSANDRA="its installation failed"
  fi
}

# Checks the protocol between readers and writer of the in-memory trie, under all interleavings.
loom() {
  begin "interleavings"
  if ! changed_lately crates/trie/src/memory crates/trie/Cargo.toml; then
    leave_out "interleavings: no commit of the last day changed code of crates/trie/src/memory" \
      "(make nightly runs them)"
    return
  fi
  count_tests "interleavings" '^test result:' make --no-print-directory loom
}

# Counts the instructions of the trie's operations, which a busy machine does not change.
instructions() {
  local status
  begin "instruction counts"
  if ! changed_lately crates/trie/{src/{memory,cursor,prefetch.rs},benches,Cargo.toml} \
    bench/instructions.sh; then
    leave_out "instruction counts: no commit of the last day changed code that they cover" \
      "(make nightly runs them)"
    return
  fi
  bench/instructions.sh && status=0 || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) leave_out "instruction counts: they need valgrind" ;;
    *) failed=$((failed + 1)); failures+=("instruction counts") ;;
  esac
}

# Tests the debug binary that the unit tests have built. This binary checks assertions and
# arithmetic, which the shipped one does not, and another build would take half as long as these
# tests. (`cargo build` would be another build, because it chooses other features of the
# dependencies than the tests.) The step ends after 20 failures (arbitrary): if a fault made all
# tests wait for their limits, mostly a minute, the step would otherwise take more than an hour.
interop() {
  begin "interop tests"
  export ESPALIER_BINARY=${ESPALIER_BINARY:-$PWD/target/debug/espalier}
  if [ "$ESPALIER_BINARY" = "$PWD/target/debug/espalier" ] &&
    ! linting cargo test --quiet --workspace --no-run --test binary; then
    failed=$((failed + 1))
    failures+=("the build for the interop tests")
  elif [ -z "${WITHOUT_PYTHON:-}" ]; then
    # shellcheck disable=SC2086
    count_tests "interop tests" '[0-9]+ (passed|failed|errors?|skipped).* in [0-9.]+s' \
      .deps/venv/bin/python -m pytest interop --numprocesses "$processes" \
      --dist loadgroup --no-loadscope-reorder --maxfail 20 ${PYTEST_ARGUMENTS:-}
    [ -n "${NIGHTLY:-}" ] ||
      leave_out "five sixths of the flights, three of four protocols at each stage, three of four" \
        "versions of files, and three quarters of the kills (make nightly runs them)"
  fi
}

if ! has cargo; then
  echo "cargo is missing: nothing can be built or tested; install Rust first"
  exit 1
fi
case " $steps " in *" prepare "*) start_installing ;; esac
for step in $steps; do
  case $step in
    format | lint | prepare | unit | loom | instructions | release | interop) "$step"; end ;;
    *) echo "there is no step $step"; exit 2 ;;
  esac
done

echo
for what in ${left_out[@]+"${left_out[@]}"}; do echo "left out: $what"; done
for what in ${failures[@]+"${failures[@]}"}; do echo "failed: $what"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
