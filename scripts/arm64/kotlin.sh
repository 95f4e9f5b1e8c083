#!/usr/bin/env bash
# usage: kotlin.sh CPU
# Runs the Kotlin library on an emulated ARM64 processor: all vectors, and greedy texts with the bundle fp32 of all.sh. It
# compiles with the tools of `make android`; without them it says so and runs nothing.
. "$(dirname "$0")/common.sh"
cpu=$1 results=$OUT/results logs=$OUT bundle=$OUT/bundles/fp32 qemu=$TOOLS/qemu/usr/bin/qemu-aarch64 libraries=$TOOLS/root
setup=$HERE/kotlin_setup.sh arm=$TOOLS
. "$HERE/../android/common.sh" # from here on HERE, OUT and TOOLS are those of scripts/android
if [ ! -d "$TOOLS" ] || ! command -v javac > /dev/null; then
    echo "without Kotlin: its tools are installed by make android"
    exit
fi
java=${arm%/*}/kotlin-$(cat "$setup" "$HERE/ort_java.sh" <(echo "${arm##*/} $SUITE_JAVA_API") | sha256sum | cut -c1-16)
bash "$setup" "$java" "$SUITE_JAVA_API"
bash "$HERE/compile.sh" > "$logs/kotlin-compile.log" 2>&1 && bash "$HERE/compile_tests.sh" >> "$logs/kotlin-compile.log" 2>&1 ||
    { cat "$logs/kotlin-compile.log"; exit 1; }

tests=$OUT/tests classes=$OUT/tests:$STDLIB:$ORT_JAR:$OUT/main
# arm_java ARGUMENTS: Java, with the library of the ARM64 wheel in place of that in ORT_JAR.
arm_java() {
    QEMU_CPU=$cpu "$qemu" -L "$libraries" "$java/root/usr/lib/jvm/java-17-openjdk-arm64/bin/java" -Xmx1500m -XX:+UseSerialGC \
        "-Domnidraft.root=$ROOT" "-Donnxruntime.native.path=$java/onnxruntime" "$@"
}
cd "$ROOT"
mkdir -p "$results/kotlin"
lines=$logs/kotlin-$cpu.txt log=$logs/kotlin-$cpu.log summary=$logs/kotlin-$cpu-summary.txt
rm -f "$lines"
arm_java "-Domnidraft.vectors=$lines" -jar "$JAVA_SHARE/junit-platform-console-standalone.jar" -cp "$classes" \
    --scan-classpath "$tests" --include-classname '.*VectorsTest' --disable-banner --details=summary > "$log" 2>&1 ||
    sed -n '/^Failures/,/^Test run/p' "$log" # table.py fails where one failed
"$PYTHON" -m scripts.android.results "$log" "$lines" spec/vectors/manifest.json "$results/vectors/$cpu, Kotlin.json" \
    > "$summary" || cat "$summary"
echo "$cpu, Kotlin: $(tail -n 1 "$summary")"
mapfile -t given < <("$PYTHON" -c 'from scripts.arm64.measure import *; print(TOKENS, DRAFT, *PROMPTS[:TEXTS], sep="\n")')
arm_java -cp "$classes" io.omnidraft.session.GreedyIdsKt "$bundle" "${given[@]}" > "$results/kotlin/$cpu.json"
