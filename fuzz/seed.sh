#!/usr/bin/env bash
# Collects seeds for all targets into fuzz/results: from testdata/ and, where they are, Cassandra's files in ../shared/fixtures
# into seeds/; from ScyllaDB's there into scylla-seeds/, which only `CORPUS=scylla fuzz/run.sh` uses, since those bytes and what
# grows of them are never committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo run --quiet --package espalier-fuzz-targets --bin seeds -- . fuzz/results
