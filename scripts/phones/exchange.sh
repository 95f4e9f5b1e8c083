#!/usr/bin/env bash
# Files that cross languages: each of Python, Kotlin and Swift writes sessions, n-gram caches, adapters, traces and pushes;
# each reads what the others wrote, and releases of Python. exchange.py compares what they read.
#
# It takes the compiled tests of both ports: run make android and make ios, or one of them, before. `exchange.sh LANGUAGE`
# leaves the other port out.
. "$(dirname "$0")/common.sh"

work=$ROOT/.cache/exchange
ports=${*:-kotlin swift}
declare -A scripts=([kotlin]=$ROOT/scripts/android/exchange.sh [swift]=$ROOT/scripts/ios/exchange.sh)

python() {
    "$PYTHON" "$PHONES/exchange.py" "$@"
}

rm -rf "$work"
mkdir -p "$work/python"
python write "$BUNDLES/learning" "$BUNDLES/expected/learning" "$work/python"
for port in $ports; do
    mkdir "$work/$port"
    bash "${scripts[$port]}" write "$work/$port"
done
for writer in python $ports; do
    python read "$BUNDLES/learning" "$work/$writer" "$work/python-reads-$writer.json"
    for port in $ports; do
        bash "${scripts[$port]}" read "$work/$writer" "$work/$port-reads-$writer.json"
    done
done
python compare "$BUNDLES/learning" "$work" "$RESULTS/exchange.json"
