# Places and settings that the scripts of this folder share; they source it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
ANDROID=$ROOT/scripts/android      # has what both ports take from Debian, and the starter bundles
PYTHON=$ROOT/.venv/bin/python
OUT=$ROOT/.cache/ios               # what is made from the checkout
SUITE_SWIFT=trixie                 # Debian suite with Swift 6.0 and with the header of onnxruntime's C API

export ORT_DISABLE_TELEMETRY=1     # before the native library loads
export LC_ALL=C.UTF-8

fail() {
    echo "$*" >&2
    exit 1
}

[ -x "$PYTHON" ] || fail "there is no .venv; run make ios, which makes it"
ORT_LIBRARY=$("$PYTHON" -c '
import importlib.util, pathlib
print(next(pathlib.Path(importlib.util.find_spec("onnxruntime").origin).parent.glob("capi/libonnxruntime.so.*"), ""))')
[ -n "$ORT_LIBRARY" ] || fail "the onnxruntime of .venv has no libonnxruntime.so; make ios takes Linux on x86-64"

# The tools depend on the scripts that install them, on the suite and on the native library, and on nothing else.
STAMP=$(cat "$HERE/setup.sh" "$ANDROID"/{mirror,suite_deb}.sh <(echo "$SUITE_SWIFT" "$(basename "$ORT_LIBRARY")") |
    sha256sum | cut -c1-16)
TOOLS=${OMNIDRAFT_IOS_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/omnidraft/ios}/$STAMP

# A script that is run alone after the tools changed.
need_tools() {
    [ -d "$TOOLS" ] || fail "the tools are not installed; run scripts/ios/setup.sh"
}

# inside COMMAND: runs it in Swift's root directory, with the checkout at /checkout, read-only unless CHECKOUT is rw, $OUT
# at /out and OMNIDRAFT_DATA, where it is set, at /data. The mounts end with the command.
inside() {
    mkdir -p "$OUT/tmp" "$OUT/home"
    unshare --mount bash -c '
        root=$1 checkout=$2 mode=$3 out=$4 data=$5
        shift 5
        mount --rbind /proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --bind "$checkout" "$root/checkout"
        mount -o "remount,bind,$mode" "$root/checkout"
        mount --bind "$out" "$root/out"
        mount --bind "$out/tmp" "$root/tmp"
        [ -z "$data" ] || mount --bind "$data" "$root/data"
        exec chroot "$root" /usr/bin/env -i -C /checkout HOME=/out/home \
            PATH=/usr/bin:/bin:/usr/libexec/swift/bin LC_ALL=C.UTF-8 ORT_DISABLE_TELEMETRY=1 \
            PKG_CONFIG_PATH=/opt/onnxruntime LD_LIBRARY_PATH=/opt/onnxruntime/lib OMNIDRAFT_ROOT=/checkout \
            OMNIDRAFT_BUNDLES=/checkout/.cache/android/bundles ${data:+OMNIDRAFT_DATA=/data} "$@"
        ' inside "$TOOLS/root" "$ROOT" "${CHECKOUT:-ro}" "$OUT" "${OMNIDRAFT_DATA:-}" "$@"
}

# swift_package COMMAND ARGUMENTS: `swift build` or `swift test` of the checkout; each warning is an error.
swift_package() {
    local command=$1
    shift
    inside swift "$command" --scratch-path /out/build -Xswiftc -warnings-as-errors "$@"
}

# timed NAME COMMAND: runs it and says how long it took.
timed() {
    local name=$1 start=$SECONDS
    shift
    "$@"
    echo "== $name: $((SECONDS - start)) s"
}
