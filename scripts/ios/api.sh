#!/usr/bin/env bash
# Compares the public names of the library that build.sh compiled with mobile/ios/api/OmniDraft.api, which a reviewer reads,
# and refuses a public name without a comment. `api.sh --write` writes the file.
. "$(dirname "$0")/common.sh"
need_tools

committed=$ROOT/mobile/ios/api/OmniDraft.api
mkdir -p "$OUT/api" "$(dirname "$committed")"
modules=$(cd "$OUT" && find build -path '*/Modules/OmniDraft.swiftmodule' -printf '%T@ /out/%h\n' | sort -rn | sed -n '1s/.* //p')
[ -n "$modules" ] || fail "the library is not compiled; run scripts/ios/build.sh"
target=$(inside swiftc -print-target-info | sed -n 's/^ *"unversionedTriple": "\(.*\)",*$/\1/p' | head -1)
for module in OmniDraft OmniDraftORT; do
    inside swift-symbolgraph-extract -module-name "$module" -target "$target" -I "$modules" \
        -I /opt/onnxruntime/include -Xcc -fmodule-map-file=/checkout/mobile/ios/Sources/COnnxRuntime/module.modulemap \
        -Xcc -fmodule-map-file=/checkout/mobile/ios/Sources/CRowMath/include/module.modulemap \
        -minimum-access-level public -skip-synthesized-members -output-dir /out/api
done
cd "$ROOT"
"$PYTHON" -m scripts.ios.api "$OUT/api" > "$OUT/api/OmniDraft.api"
if [ "${1:-}" = --write ]; then
    cp "$OUT/api/OmniDraft.api" "$committed"
fi
diff -u "$committed" "$OUT/api/OmniDraft.api" ||
    fail "the public interface is not the committed one; if it is meant, run scripts/ios/api.sh --write"
echo "public interface: $(grep -c '^[a-z].*{$' "$committed") types, $(grep -c '^    ' "$committed") members, as committed"
