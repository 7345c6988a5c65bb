#!/bin/sh
# cmake/install-packages.sh [ci|docs]: the Debian or Ubuntu packages that a build needs, with `ci`
# also those of our continuous integration, with `docs` those of the documentation. Uses apt-get,
# through sudo unless you are root; asks nothing, and does nothing if all are installed.
set -eu

packages="cmake g++ libbenchmark-dev libcli11-dev libeigen3-dev libgtest-dev libicu-dev
  librapidcheck-dev libxxhash-dev ninja-build nlohmann-json3-dev"
if [ "${1:-}" = ci ]; then
  packages="$packages clang libclang-rt-dev python3-venv"
elif [ "${1:-}" = docs ]; then
  packages="$packages doxygen python3"
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
