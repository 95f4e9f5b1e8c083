# What the scripts of both ports share; scripts/android/common.sh and scripts/ios/common.sh source it.
set -euo pipefail

PHONES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$PHONES/../.." && pwd)
PYTHON=$ROOT/.venv/bin/python
BUNDLES=$ROOT/.cache/android/bundles             # scripts/android/bundles.sh makes them for both ports
RESULTS=$ROOT/.cache/conformance                 # what the tests of each language write for docs/conformance.md
DATA=${OMNIDRAFT_DATA:-$ROOT/../shared/data}     # real tokenizers and texts, where they are

export ORT_DISABLE_TELEMETRY=1                   # before the native library loads
export LC_ALL=C.UTF-8

fail() {
    echo "$*" >&2
    exit 1
}

# timed NAME COMMAND: runs it and says how long it took.
timed() {
    local name=$1 start=$SECONDS
    shift
    "$@"
    echo "== $name: $((SECONDS - start)) s"
}

[ -x "$PYTHON" ] || fail "there is no .venv; make android and make ios make it"
ORT_LIBRARY=$("$PYTHON" -c '
import importlib.util, pathlib
print(next(pathlib.Path(importlib.util.find_spec("onnxruntime").origin).parent.glob("capi/libonnxruntime.so.*"), ""))')
[ -n "$ORT_LIBRARY" ] || fail "the onnxruntime of .venv has no libonnxruntime.so; the tests of the ports take Linux on x86-64"
