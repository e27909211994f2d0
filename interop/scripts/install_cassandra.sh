#!/usr/bin/env bash
# Installs Cassandra for the interop tests into .deps/cassandra: jars through Maven and the compiled
# oracle. It is cheap if both exist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
interop/cassandra/install.sh .deps/cassandra/node
