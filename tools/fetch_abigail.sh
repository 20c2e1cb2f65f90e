#!/usr/bin/env bash
# Puts abidw and abidiff into build/bin: those on PATH, else Debian's abigail-tools extracted into build/abigail. Nothing is
# installed: apt works on folders of its own and takes only the machine's list of sources.
set -euo pipefail
cd "$(dirname "$0")/.."
# What an earlier run put into build/bin is not the system's.
PATH=${PATH//"$PWD/build/bin:"/}
mkdir -p build/bin

if command -v abidw abidiff > /dev/null; then
    for program in abidw abidiff; do
        ln -sfn "$(command -v "$program")" "build/bin/$program"
    done
    exit 0
fi
if ! command -v apt-get dpkg-deb > /dev/null; then
    echo "Missing: abidw and abidiff, and no apt-get to fetch them. Install your system's abigail-tools (or libabigail)." >&2
    exit 1
fi

folder=$PWD/build/abigail
rm -rf "$folder"
mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial} "$folder/root"
touch "$folder/apt/status"
apt=(apt-get -qq -o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache"
    -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke::= -o APT::Update::Post-Invoke-Success::=
    -o APT::Get::List-Cleanup=false)
"${apt[@]}" update
"${apt[@]}" install --yes --download-only --no-install-recommends abigail-tools
# The C library and what every system has stay the system's own.
for package in "$folder"/apt/cache/archives/*.deb; do
    case $(basename "$package") in
    libc6_* | libgcc-s1_* | libstdc++6_* | gcc-*-base_* | libcrypt1_* | debconf_* | perl*) ;;
    *) dpkg-deb --extract "$package" "$folder/root" ;;
    esac
done
rm -rf "$folder/apt"
libraries=$(dirname "$(find "$folder/root/usr/lib" -name 'libabigail.so.*' -print -quit)")
for program in abidw abidiff; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$folder/root/usr/bin/$program" > "build/bin/$program"
    chmod +x "build/bin/$program"
done
"build/bin/abidw" --version
