#!/usr/bin/env bash
# Makes what `make arm64` runs: QEMU's user mode, and an ARM64 Python with the wheels of constraints.txt. Debian's packages
# are checked by apt and unpacked, not installed, so it takes no root.
#
# The folder is $OMNIDRAFT_ARM64_TOOLS, else omnidraft/arm64 below the user's cache; its name ends with a stamp of these
# scripts and versions, so it is made once for each of them.
. "$(dirname "$0")/common.sh"

DEBS="python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 libstdc++6
    libgcc-s1 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1"
WHEELS="onnxruntime numpy tokenizers safetensors protobuf flatbuffers packaging pytest pluggy iniconfig pygments
    typer shellingham annotated-doc rich markdown-it-py mdurl"  # the second line is for the tests

python_root() {
    local name names=()
    for name in $DEBS; do names+=("$name:arm64"); done
    echo "APT::Architectures { \"$(dpkg --print-architecture)\"; \"arm64\"; };" > "$1.apt"
    APT_CONFIG=$1.apt bash "$PHONES/suite_deb.sh" "$SUITE_PYTHON" "$1" "${names[@]}"
    rm "$1.apt"
}

wheels() {
    local platforms=() each
    for each in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${each}_aarch64"); done
    "$PYTHON" -m pip -q --disable-pip-version-check download --no-deps --only-binary=:all: -c "$ROOT/constraints.txt" \
        --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none "${platforms[@]}" \
        --platform manylinux2014_aarch64 --platform any -d "$1.wheels" $WHEELS
    for each in "$1.wheels"/*.whl; do "$PYTHON" -m zipfile -e "$each" "$1"; done
    rm -r "$1.wheels"
}

command -v apt-get > /dev/null || fail "make arm64 takes Debian's apt"
mkdir -p "$(dirname "$TOOLS")"
exec 9> "$TOOLS.lock"
flock 9
if [ ! -e "$TOOLS" ]; then
    rm -rf "$TOOLS.tmp"
    mkdir "$TOOLS.tmp"
    timed "QEMU" bash "$PHONES/suite_deb.sh" "$SUITE_QEMU" "$TOOLS.tmp/qemu" qemu-user
    find "$TOOLS.tmp/qemu/usr/bin" ! -name qemu-aarch64 -type f,l -delete
    timed "ARM64 Python" python_root "$TOOLS.tmp/root"
    timed "ARM64 wheels" wheels "$TOOLS.tmp/site"
    mv "$TOOLS.tmp" "$TOOLS"
fi
echo "tools: $TOOLS"
