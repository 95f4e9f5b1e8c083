#!/usr/bin/env bash
# usage: kotlin_setup.sh FOLDER SUITE
# Makes what kotlin.sh runs: an ARM64 Java, and the native part of SUITE's Java API of onnxruntime for the library in the ARM64
# wheel. Debian's packages are checked by apt and unpacked, not installed, so it takes no root.
. "$(dirname "$0")/common.sh"

CROSS="gcc-12-aarch64-linux-gnu cpp-12-aarch64-linux-gnu binutils-aarch64-linux-gnu libgcc-12-dev-arm64-cross
    libgcc-s1-arm64-cross libc6-dev-arm64-cross libc6-arm64-cross linux-libc-dev-arm64-cross"

java_root() {
    echo "APT::Architectures { \"$(dpkg --print-architecture)\"; \"arm64\"; };" > "$1.apt"
    APT_CONFIG=$1.apt bash "$PHONES/suite_deb.sh" "$SUITE_PYTHON" "$1" openjdk-17-jre-headless:arm64
    rm "$1.apt"
    # Its settings are links into /etc, which would lead to those of this machine.
    find "$1" -type l -lname '/etc/java-17-openjdk/*' | while read -r link; do
        cp --remove-destination "$1$(readlink "$link")" "$link"
    done
}

# ort_java.sh calls these two: in bash, a function goes before the program of its name.
gcc() { "$cross/usr/bin/aarch64-linux-gnu-gcc-12" "--sysroot=$cross" "$@"; }
objdump() { "$cross/usr/bin/aarch64-linux-gnu-objdump" "$@"; }

native_libraries() {
    export cross=$1.cross
    export -f gcc objdump
    bash "$PHONES/suite_deb.sh" "$SUITE_PYTHON" "$cross" $CROSS
    LD_LIBRARY_PATH=$cross/usr/lib/$(uname -m)-linux-gnu bash "$PHONES/../android/ort_java.sh" "$1.build" \
        "$(echo "$TOOLS"/site/onnxruntime/capi/libonnxruntime.so.*)" "$2"
    unzip -q -j "$1.build/onnxruntime-java.jar" '*.so' -d "$1"
    rm -r "$cross" "$1.build"
}

exec 9> "$1.lock"
flock 9
if [ ! -e "$1" ]; then
    rm -rf "$1.tmp"
    mkdir "$1.tmp"
    timed "ARM64 Java" java_root "$1.tmp/root"
    timed "ARM64 Java API of onnxruntime" native_libraries "$1.tmp/onnxruntime" "$2"
    mv "$1.tmp" "$1"
fi
echo "tools: $1"
