#!/usr/bin/env bash
# Exports the starter bundles that the tests and the sample use, once for each version of the exporter's sources
# (starter_bundles.py), and writes what the Python runtime says and learns with them (expected_ids.py, expected_learning.py).
. "$(dirname "$0")/common.sh"

bundles=$OUT/bundles
made_from=(src/omnidraft examples/starters constraints.txt
    scripts/android/{bundles.sh,starter_bundles.py,expected_ids.py,expected_learning.py}
    tests/support/{starter_bundles,manifests,places}.py)
stamp=$(cd "$ROOT" && find "${made_from[@]}" -name __pycache__ -prune -o -type f -print0 | sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ -e "$bundles/stamp" ] && [ "$(cat "$bundles/stamp")" = "$stamp" ]; then
    echo "bundles: as before"
    exit 0
fi

done=$bundles
bundles=$bundles.new
rm -rf "$bundles"
mkdir -p "$bundles"
PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$ROOT/tests \
    "$PYTHON" "$HERE/starter_bundles.py" "$bundles" > "$bundles/log" 2>&1 || { cat "$bundles/log"; exit 1; }
rm "$bundles/log"
# Each of these uses one core for the most part.
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
expect() {
    timed "expected: $*" "$PYTHON" "$HERE/$1.py" "$bundles" "${@:2}"
}
expect expected_ids a & of_a=$!
expect expected_learning & of_learning=$!
expect expected_ids b
expect expected_ids half
wait "$of_a"
wait "$of_learning"
echo "$stamp" > "$bundles/stamp"
rm -rf "$done"
mv "$bundles" "$done"
du -sh "$done"/*
