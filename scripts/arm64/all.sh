#!/usr/bin/env bash
# All that `make arm64` does: the tools, bundles that x86-64 exports, and then on x86-64 and on each emulated processor the
# vectors of level core, the ids of tokenizers, rows of logits and greedy texts; the Kotlin library on one of them, in an
# ARM64 Java. Tables at the end (table.py); no times.
. "$(dirname "$0")/common.sh"
bash "$HERE/setup.sh"
cd "$ROOT"
rm -rf "$OUT/bundles" "$OUT/results"
mkdir -p "$OUT/bundles" "$OUT/results/vectors"

# export_bundle NAME MODEL OPTIONS: a bundle with the starters' drafter.
export_bundle() {
    "$PYTHON" -m omnidraft export "$2" -d examples/starters/drafter -o "$OUT/bundles/$1" --max-length 256 "${@:3}" \
        > "$OUT/$1.log" 2>&1 || { cat "$OUT/$1.log"; exit 1; }
    names+=("$1")
}
names=()
for form in fp32 int8 int4 int4-k-quant; do export_bundle "$form" examples/starters/a --quant "$form"; done
echo "half_kv = true" > "$OUT/half.toml"
export_bundle half examples/starters/a --quant int8 --config "$OUT/half.toml"
if model=$("$PYTHON" -c 'from omnidraft.commands.demo.real_models import REAL_MODELS, fetch; print(fetch(REAL_MODELS["smollm2"]))' 2> "$OUT/fetch.log")
then
    export_bundle smollm2 "$model"
else
    echo "without SmolLM2: $(tail -n 1 "$OUT/fetch.log")"
fi

# measured NAME RUN...: the results of one processor; RUN is what starts Python on it.
measured() {
    local name=$1 run=("${@:2}")
    OMNIDRAFT_RESULTS=$OUT/results/vectors/$name.json "${run[@]}" -m pytest -q -p no:cacheprovider "${CORE[@]}" \
        > "$OUT/$name.log" 2>&1 || cat "$OUT/$name.log"
    "${run[@]}" "$HERE/measure.py" "$OUT/bundles" "$OUT/results/$name.json" tokenizers "${names[@]}" 2>> "$OUT/$name.log" ||
        { cat "$OUT/$name.log"; exit 1; }
}
mapfile -t CORE < <("$PYTHON" -c 'import json
for folder in json.load(open("spec/vectors/manifest.json"))["levels"]["core"]:
    print(f"tests/conformance/test_vectors.py::test_folder[{folder}]")')
measured x86-64 "$PYTHON"
for cpu in $CPUS; do
    measured "$cpu" on_arm "$cpu"
    names=("${names[@]/smollm2/}") # takes many minutes on an emulated core, so one of them is enough
    names=(${names[@]})
done
bash "$HERE/kotlin.sh" "${CPUS%% *}"
"$PYTHON" "$HERE/table.py" "$OUT/results" spec/vectors/manifest.json
