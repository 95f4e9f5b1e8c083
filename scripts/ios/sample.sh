#!/usr/bin/env bash
# Compiles the iOS sample, its views against the signatures in mobile/ios/Sample/Stubs, and runs the tests of its screen
# with the library and a starter bundle. The last line is `N passed, N failed`.
. "$(dirname "$0")/common.sh"
need_tools

# The library Observation of Swift 6.0 for Linux has a symbol that only newer ones define; nothing here uses it.
# The folder of the build is that of build.sh: the library is not compiled again.
sample() {
    swift_package "$1" --package-path mobile/ios/Sample -Xlinker --allow-shlib-undefined "${@:2}"
}

sample build --build-tests --quiet
status=0
sample test --skip-build --disable-swift-testing > "$OUT/sample.log" 2>&1 || status=$?
cd "$ROOT"
"$PYTHON" -m scripts.ios.results "$OUT/sample.log" spec/vectors/manifest.json "" sample || status=1
exit "$status"
