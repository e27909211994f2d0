#!/usr/bin/env bash
# Collects seeds for all targets into fuzz/results. Seeds from testdata/, and from Cassandra's files
# in ../shared/fixtures if these exist, go into seeds/. Seeds from ScyllaDB's files there go into
# scylla-seeds/, which only `CORPUS=scylla fuzz/run.sh` uses: these bytes, and inputs that grow from
# them, are never committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo run --quiet --package espalier-fuzz-targets --bin seeds -- . fuzz/results
