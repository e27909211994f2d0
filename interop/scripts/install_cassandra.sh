#!/usr/bin/env bash
# Cassandra for the interop tests: jars through Maven and the compiled oracle, in .deps/cassandra. Cheap when it is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
interop/cassandra/install.sh .deps/cassandra/node
