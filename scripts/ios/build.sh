#!/usr/bin/env bash
# Compiles the package with its tests; each warning is an error.
. "$(dirname "$0")/common.sh"
need_tools

swift_package build --build-tests --quiet
