#!/usr/bin/env bash
# Counts the instructions of the trie's operations, and fails if one needs more than its limit in
# crates/trie/benches/instructions.rs.
#
#   bench/instructions.sh [gungraun's arguments]
#
# Needs valgrind. The script installs valgrind if it runs as root and apt-get exists; if valgrind is
# not available, the script ends with status 77. gungraun's runner is installed into .deps/, without
# optimisation because it only starts valgrind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v valgrind > /dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing valgrind"
    { apt-get install -y -qq valgrind ||
      { apt-get update -qq && apt-get install -y -qq valgrind; }; } > /dev/null 2>&1 || true
  fi
  if ! command -v valgrind > /dev/null; then
    echo "there is no valgrind: instructions are not counted"
    exit 77
  fi
fi
cargo metadata --format-version 1 > /dev/null  # so that Cargo.lock names it
version=$(sed -n '/^name = "gungraun"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock)
runner=$PWD/.deps/gungraun-$version/bin/gungraun-runner
if [ ! -x "$runner" ]; then
  echo "installing gungraun-runner $version into .deps/"
  cargo install --quiet --debug --locked gungraun-runner --version "$version" \
    --root ".deps/gungraun-$version" \
    --target-dir .deps/gungraun-build
  rm -rf .deps/gungraun-build
fi
GUNGRAUN_RUNNER=$runner exec cargo bench --quiet -p espalier-trie --bench instructions -- "$@"
