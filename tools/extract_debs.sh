#!/usr/bin/env bash
# tools/extract_debs.sh FOLDER PACKAGE...: extracts packages of the machine's own Debian release, and what they need, into FOLDER
# without installing them and without root: apt works on folders of its own and takes only the machine's list of sources.
# DEB_ARCHITECTURE=arm64 takes those of another architecture, with its C library and all: FOLDER is then a root for an emulator.
set -euo pipefail
folder=$(realpath -m "$1")
shift
for tool in apt-get dpkg-deb; do
    command -v "$tool" > /dev/null || { echo "Missing: $tool. Install yourself and put on PATH: $*" >&2; exit 1; }
done

rm -rf "$folder" "$folder.apt"
mkdir -p "$folder" "$folder.apt"/{state/lists/partial,cache/archives/partial}
touch "$folder.apt/status"
apt=(apt-get -qq -o Dir::State="$folder.apt/state" -o Dir::State::status="$folder.apt/status" -o Dir::Cache="$folder.apt/cache"
    -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)")
if [[ -n ${DEB_ARCHITECTURE:-} ]]; then
    apt+=(-o APT::Architecture="$DEB_ARCHITECTURE" -o APT::Architectures="$DEB_ARCHITECTURE")
fi
"${apt[@]}" update
"${apt[@]}" install --yes --download-only --no-install-recommends "$@" > /dev/null
# The C library and what every system has stay the system's own.
for package in "$folder.apt"/cache/archives/*.deb; do
    case ${DEB_ARCHITECTURE:+foreign/}$(basename "$package") in
    libc6_* | libgcc-s1_* | libstdc++6_* | gcc-*-base_* | libcrypt1_* | debconf_* | perl_* | perl-* | libperl5*) ;;
    *) dpkg-deb --extract "$package" "$folder" ;;
    esac
done
rm -rf "$folder.apt"
