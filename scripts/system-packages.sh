#!/usr/bin/env bash
# Debian packages that some features need and pip cannot bring. Run as root (CI does).
#
#   chromium                        the browser that the report-page tests open (make test-slow)
#   libegl1 libgl1-mesa-dri         off-screen rendering of simulated scenes
#   fonts-dejavu-core               text in screenshots
#
# `make demo` and `make test` need none of them: pictures, and tests of pictures, are left out where they are missing.
set -euo pipefail
packages=(chromium libegl1 libgl1-mesa-dri fonts-dejavu-core)

missing=()
for package in "${packages[@]}"; do
  dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then echo "system packages: all present"; exit 0; fi

export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
apt-get install --quiet --quiet --yes --no-install-recommends "${missing[@]}" >/dev/null
echo "system packages: installed ${missing[*]}"
