#!/usr/bin/env bash
# Prints the Debian mirror that this machine's own apt uses.
set -euo pipefail
address=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2> /dev/null |
    awk '!/security/ { print; exit }')
[ -n "$address" ] || { echo "apt of this machine has no mirror of Debian; make android takes Debian" >&2; exit 1; }
echo "$address"
