#!/usr/bin/env bash
# Compiles a crate of the workspace in place of rustc, with clippy's lints. test.sh sets
# RUSTC_WORKSPACE_WRAPPER to this script.
#
# A library is compiled twice, with its tests and without. The first compilation contains all code
# of the second, so the lints run once, with the tests.
#
#   lint_once.sh rustc ARGUMENTS...
set -euo pipefail
case " $* " in
  *" --test "*) exec clippy-driver "$@" ;;
  *" --crate-type lib "*) exec "$@" -D warnings ;;
  *) exec clippy-driver "$@" ;;
esac
