#!/usr/bin/env bash
# Installs the Python environment of the interop tests into .deps/venv, from
# interop/requirements.txt. It is cheap if the environment is up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
wanted=$(cat interop/requirements.txt)
if [ "$(cat .deps/venv/.requirements 2>/dev/null || true)" = "$wanted" ]; then exit 0; fi
echo "installing the Python environment into .deps/venv"
mkdir -p .deps
rm -rf .deps/venv
python3 -m venv .deps/venv
.deps/venv/bin/python -m pip install --quiet --disable-pip-version-check \
  --requirement interop/requirements.txt
printf '%s' "$wanted" > .deps/venv/.requirements
