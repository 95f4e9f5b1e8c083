#!/usr/bin/env bash
# Installs what `make ios` compiles and tests with: a root directory of Debian with Swift, outside the checkout.
#
# The folder is $OMNIDRAFT_IOS_TOOLS, else omnidraft/ios below the user's cache; its name ends with a stamp of these
# scripts, so it is made once for each version of them. The root also holds the library of onnxruntime that .venv runs,
# with the header of its C API.
. "$(dirname "$0")/common.sh"

# Program and the package that has it.
PACKAGES="mmdebstrap:mmdebstrap unshare:util-linux dpkg-deb:dpkg"
# Parts of Swift that nothing here uses; they are more than half of it.
SWIFT=/usr/libexec/swift
UNUSED="/usr/share/doc/* /usr/share/man/* /usr/share/locale/* $SWIFT/lib/swift_static/* $SWIFT/lib/liblldb*
    $SWIFT/bin/lldb* $SWIFT/bin/clangd $SWIFT/bin/docc $SWIFT/bin/sourcekit-lsp $SWIFT/lib/libLTO*
    $SWIFT/lib/swift/embedded/* $SWIFT/lib/libsourcekitd* $SWIFT/lib/swift/FrameworkABIBaseline/*"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

missing_packages() {
    for each in $PACKAGES; do
        command -v "${each%%:*}" > /dev/null || echo "${each##*:}"
    done
    [ -e "$KEYRING" ] || echo debian-archive-keyring
}

install_packages() {
    local missing
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    command -v apt-get > /dev/null || fail "make ios takes Debian's apt to install:" $missing
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing > /dev/null
    missing=$(missing_packages)
    [ -z "$missing" ] || fail "apt did not install:" $missing
}

# swift_root FOLDER: the packages are checked by apt and unpacked; none of their scripts runs. libssl-dev: the tests check
# signatures with it and serve HTTPS; the library never links it.
swift_root() {
    local options=()
    set -f
    for path in $UNUSED; do options+=(--dpkgopt="path-exclude=$path"); done
    set +f
    mmdebstrap --quiet --mode=root --variant=extract --skip=check/empty \
        --include=swiftlang,libc6-dev,libstdc++-14-dev,libssl-dev,bash,dash,coreutils,libc-bin,ca-certificates "${options[@]}" \
        "$SUITE_SWIFT" "$1" "deb [signed-by=$KEYRING] $("$PHONES/mirror.sh") $SUITE_SWIFT main"
    ldconfig -r "$1"
    ln -sf ../libexec/swift/bin/swift "$1/usr/bin/swift"
    mkdir -p "$1"/{checkout,out,data}
}

# onnxruntime FOLDER: the library under the names that a linker and a loader ask for, its header, and its .pc file.
onnxruntime() {
    local name
    name=$(basename "$ORT_LIBRARY")
    mkdir -p "$1"/{lib,include}
    cp "$ORT_LIBRARY" "$1/lib/$name"
    ln -s "$name" "$1/lib/libonnxruntime.so.1"
    ln -s "$name" "$1/lib/libonnxruntime.so"
    bash "$PHONES/suite_deb.sh" "$SUITE_SWIFT" "$1/dev" libonnxruntime-dev
    cp "$1/dev/usr/include/onnxruntime/onnxruntime_c_api.h" "$1/include/"
    rm -r "$1/dev"
    cat > "$1/libonnxruntime.pc" << END
Name: onnxruntime
Description: ONNX Runtime
Version: ${name#libonnxruntime.so.}
Libs: -L/opt/onnxruntime/lib -lonnxruntime
Cflags: -I/opt/onnxruntime/include
END
}

[ "$(id -u)" = 0 ] || fail "make ios takes root: it makes Swift's root directory and runs Swift in it"
timed "Debian packages" install_packages
mkdir -p "$(dirname "$TOOLS")"
exec 9> "$TOOLS.lock"
flock 9
if [ ! -e "$TOOLS" ]; then
    rm -rf "$TOOLS.tmp"
    mkdir "$TOOLS.tmp"
    timed "Swift" swift_root "$TOOLS.tmp/root"
    timed "onnxruntime" onnxruntime "$TOOLS.tmp/root/opt/onnxruntime"
    mv "$TOOLS.tmp" "$TOOLS"
fi
echo "tools: $TOOLS"
