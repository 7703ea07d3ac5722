#!/usr/bin/env bash
# Installs the packages of tools/packages.txt that are missing: as root, or with sudo. If none is missing, it does
# nothing, for any user.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mapfile -t packages < <(sed 's/#.*//' "$here/packages.txt" | awk 'NF { print $1 }')

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
  echo "install_packages: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "All ${#packages[@]} packages are installed."
  exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  echo "install_packages: these packages are missing, and installing them needs root or sudo. As root:" >&2
  echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}"
