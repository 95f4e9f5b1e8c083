#!/usr/bin/env bash
# usage: suite_deb.sh SUITE FOLDER PACKAGE...
# Fetches single packages of another Debian suite, checked by apt, and unpacks them into a folder; nothing is installed.
set -euo pipefail
suite=$1 folder=$(realpath -m "$2") && shift 2
apt=$folder/.apt
mkdir -p "$apt/lists/partial" "$apt/parts" "$apt/cache/archives/partial"
mirror=$("$(dirname "$0")/mirror.sh")
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$apt/parts/suite.list"
options=(-q -o "Dir::Etc::SourceParts=$apt/parts" -o Dir::Etc::SourceList=/dev/null -o "Dir::State::lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update > /dev/null
(cd "$apt" && apt-get "${options[@]}" download "$@" > /dev/null)
for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$apt"
