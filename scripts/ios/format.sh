#!/usr/bin/env bash
# Checks the Swift sources with swift-format; `format.sh --write` writes them in its form.
#
# .swift-format is for all sources. mobile/ios/Sources/.swift-format also asks for a comment on each public name, and
# refuses `try!` and a forced `!`.
. "$(dirname "$0")/common.sh"
need_tools

if [ "${1:-}" = --write ]; then
    CHECKOUT=rw inside swift-format format --in-place --recursive Package.swift mobile/ios
fi
inside swift-format lint --strict --recursive Package.swift mobile/ios
echo "swift-format: $(find "$ROOT/mobile/ios" -name '*.swift' | wc -l) files"
