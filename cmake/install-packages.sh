#!/bin/sh
# cmake/install-packages.sh [ci]: the Debian or Ubuntu packages that a build takes, with `ci` also
# those of our continuous integration. Asks for nothing and does nothing where all are there.
set -eu

packages="cmake g++ libbenchmark-dev libcli11-dev libeigen3-dev libgtest-dev libicu-dev
  librapidcheck-dev libxxhash-dev ninja-build nlohmann-json3-dev"
if [ "${1:-}" = ci ]; then
  packages="$packages clang libclang-rt-dev python3-venv"
fi

missing=""
for package in $packages; do
  case "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" in
    installed) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $missing
