#!/usr/bin/env bash
# Type-checks the Swift blocks of mobile/ios/README.md against the library that build.sh compiled.
. "$(dirname "$0")/common.sh"
need_tools

rm -rf "$OUT/readme"
mkdir -p "$OUT/readme"
cd "$ROOT"
"$PYTHON" -m scripts.phones.readme mobile/ios/README.md "$OUT/readme"
modules=$(cd "$OUT" && find build -path '*/Modules/OmniDraft.swiftmodule' -printf '%T@ /out/%h\n' | sort -rn | sed -n '1s/.* //p')
[ -n "$modules" ] || fail "the library is not compiled; run scripts/ios/build.sh"
common="-typecheck -swift-version 6 -warnings-as-errors"
# shellcheck disable=SC2086
inside sh -c "swiftc $common -module-name Readme -parse-as-library -I $modules -I /opt/onnxruntime/include \
    -Xcc -fmodule-map-file=/checkout/mobile/ios/Sources/COnnxRuntime/module.modulemap \
    -Xcc -fmodule-map-file=/checkout/mobile/ios/Sources/CRowMath/include/module.modulemap /out/readme/Block*.swift"
inside swiftc $common -package-description-version 6.0 -I /usr/libexec/swift/lib/swift/pm/ManifestAPI /out/readme/Package.swift
echo "README.md: its blocks compile"
