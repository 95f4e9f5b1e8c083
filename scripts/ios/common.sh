# Places and settings that the scripts of this folder share; they source it.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../phones/common.sh"

OUT=$ROOT/.cache/ios               # what is made from the checkout
SUITE_SWIFT=trixie                 # Debian suite with Swift 6.0 and with the header of onnxruntime's C API

# The tools depend on the scripts that install them, on the suite and on the native library, and on nothing else.
STAMP=$(cat "$HERE/setup.sh" "$PHONES"/{mirror,suite_deb}.sh <(echo "$SUITE_SWIFT" "$(basename "$ORT_LIBRARY")") |
    sha256sum | cut -c1-16)
TOOLS=${OMNIDRAFT_IOS_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/omnidraft/ios}/$STAMP

# A script that is run alone after the tools changed.
need_tools() {
    [ -d "$TOOLS" ] || fail "the tools are not installed; run scripts/ios/setup.sh"
}

# inside COMMAND: runs it in Swift's root directory, with the checkout at /checkout, read-only unless CHECKOUT is rw, $OUT
# at /out and OMNIDRAFT_DATA, where it is set, at /data. VARIABLES are further settings of the environment, NAME=VALUE. The
# mounts end with the command.
inside() {
    mkdir -p "$OUT/tmp" "$OUT/home"
    unshare --mount bash -c '
        root=$1 checkout=$2 mode=$3 out=$4 data=$5 variables=$6
        shift 6
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
            OMNIDRAFT_BUNDLES=/checkout/.cache/android/bundles ${data:+OMNIDRAFT_DATA=/data} $variables "$@"
        ' inside "$TOOLS/root" "$ROOT" "${CHECKOUT:-ro}" "$OUT" "${OMNIDRAFT_DATA:-}" "${VARIABLES:-}" "$@"
}

# swift_package COMMAND ARGUMENTS: `swift build` or `swift test` of the checkout; each warning is an error. BUILD is the
# folder of the build, and OPTIMIZE its level: a sanitizer has its own of both. A module is compiled as a whole, which takes
# two thirds of the time of its files one by one; with COMPILE=files a change compiles few files again. The index stays:
# SwiftPM finds the tests in it, and with one thread the compiler does not write it for a whole module.
swift_package() {
    local command=$1
    shift
    local whole=(-Xswiftc -whole-module-optimization -Xswiftc -disable-batch-mode -Xswiftc -num-threads -Xswiftc 2)
    [ "${COMPILE:-}" != files ] || whole=()
    inside swift "$command" --scratch-path "/out/${BUILD:-build}" -Xcc -O2 -Xswiftc "${OPTIMIZE:--O}" "${whole[@]}" \
        -Xswiftc -warnings-as-errors "$@"
}
