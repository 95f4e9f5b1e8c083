# Places and settings that the scripts of this folder share; they source it.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../phones/common.sh"

OUT=$ROOT/.cache/arm64             # what is made from the checkout
SUITE_PYTHON=bookworm              # Debian suite with Python 3.11, which all wheels below are for
SUITE_QEMU=trixie                  # with QEMU 10.0; under 7.2 onnxruntime 1.31 crashes when it is imported
# Cores of phones, each with other kernels: int8 matrix products, dot products and SVE; dot products; none of them.
CPUS="cortex-a710 cortex-a76 cortex-a72"

# The tools depend on the scripts that install them and on the versions of packages, and on nothing else.
STAMP=$(cat "$HERE"/{common,setup}.sh "$PHONES"/{mirror,suite_deb}.sh "$ROOT/constraints.txt" | sha256sum | cut -c1-16)
TOOLS=${OMNIDRAFT_ARM64_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/omnidraft/arm64}/$STAMP

# on_arm CPU ARGUMENTS: Python on an emulated ARM64 processor, with the wheels of ARM64 and this checkout.
on_arm() {
    env QEMU_CPU="$1" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TOOLS/site:$ROOT/src" \
        "$TOOLS/qemu/usr/bin/qemu-aarch64" -L "$TOOLS/root" "$TOOLS/root/usr/bin/python3.11" "${@:2}"
}
