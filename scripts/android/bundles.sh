#!/usr/bin/env bash
# Exports the starter bundles that the tests and the sample use, once for each version of the exporter's sources:
# a and b in float32, and `learning`, starter a with an int8 drafter that can learn; then packs `learning` for a phone,
# and unpacks it, for a test of the library's unpacking; and writes what the Python runtime says with a and b.
. "$(dirname "$0")/common.sh"

bundles=$OUT/bundles
made_from=(src/omnidraft examples/starters constraints.txt scripts/android/{bundles.sh,expected_ids.py,expected_learning.py})
stamp=$(cd "$ROOT" && find "${made_from[@]}" -type f ! -name '*.pyc' -print0 | sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ -e "$bundles/stamp" ] && [ "$(cat "$bundles/stamp")" = "$stamp" ]; then
    echo "bundles: as before"
    exit 0
fi

starter() {
    "$ROOT/.venv/bin/omnidraft" export "$ROOT/examples/starters/$1" -d "$ROOT/examples/starters/drafter" "${@:2}" \
        > "$bundles/log" 2>&1 || { cat "$bundles/log"; exit 1; }
}

done=$bundles
bundles=$bundles.new
rm -rf "$bundles"
mkdir -p "$bundles"
starter a -o "$bundles/a" --quant fp32
starter b -o "$bundles/b" --quant fp32
starter a -o "$bundles/learning" --quant fp32 --drafter-quant int8 --train-step
"$ROOT/.venv/bin/omnidraft" pack "$bundles/learning" --for android-cpu -o "$bundles/starter-a.zip" > "$bundles/log"
"$ROOT/.venv/bin/omnidraft" unpack "$bundles/starter-a.zip" -o "$bundles/unpacked" > "$bundles/log"
rm "$bundles/log"
"$PYTHON" "$HERE/expected_ids.py" "$bundles"
"$PYTHON" "$HERE/expected_learning.py" "$bundles"
echo "$stamp" > "$bundles/stamp"
rm -rf "$done"
mv "$bundles" "$done"
du -sh "$done"/*
