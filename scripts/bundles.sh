#!/usr/bin/env bash
# All that `make bundles` does: archives that the sample apps can fetch, of starter a and of SmolLM2 in its default form, for
# Android and iOS. The sizes and SHA-256 that the apps ask for are printed and stand in bundles/archives.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${VENV:-.venv}/bin
OUT=bundles

model=$("$BIN/python" -c 'from omnidraft.commands.demo.real_models import REAL_MODELS, fetch; print(fetch(REAL_MODELS["smollm2"]))')
mkdir -p "$OUT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The small one can learn on the phone. The training step of SmolLM2's drafter would make its archive half as large again.
"$BIN/omnidraft" export examples/starters/a --drafter examples/starters/drafter -o "$work/starter-a" --train-step
"$BIN/omnidraft" export "$model" -o "$work/smollm2"
for name in starter-a smollm2; do
    for device in android ios; do
        "$BIN/omnidraft" pack "$work/$name" --for "$device-cpu" -o "$work/$name-$device.zip"
        mv "$work/$name-$device.zip" "$OUT"
    done
done
cd "$OUT"
for file in *.zip; do
    digest=$({ sha256sum "$file" || shasum -a 256 "$file"; } 2> /dev/null)
    echo "$file: $(($(wc -c < "$file"))) bytes, SHA-256 ${digest%% *}"
done | tee archives.txt
