#!/usr/bin/env bash
# tools/build_debs.sh FOLDER VERSION: Debian packages of what `make` built, as FOLDER/*.deb: libmmsb0 (the library), libmmsb-dev,
# mmsb (the tool) and python3-mmsb. They need the glibc of this machine. No root, and of Debian's tools dpkg alone. DEBFULLNAME
# and DEBEMAIL are the maintainer. The same tree gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD folder=$1 version=$2
release=$version-1
maintainer="${DEBFULLNAME:-libmmsb maintainers} <${DEBEMAIL:-maintainers@libmmsb.invalid}>"
command -v dpkg-deb > /dev/null || { echo "Missing: dpkg-deb, which Debian's package dpkg has." >&2; exit 1; }
architecture=$(dpkg --print-architecture)
triplet=$(gcc -dumpmachine)
SOURCE_DATE_EPOCH=$(tools/source_date.sh)
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022

# While the ABI number is 0 every minor release may change the ABI: programs need this one.
minor=${version%.*}
next=${minor%.*}.$((${minor#*.} + 1))

work=$(mktemp -d build/.debs-XXXXXX)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/all LIBDIR=lib/$triplet tools/install.sh /usr > /dev/null

# moves PACKAGE PATH...: from everything that is installed into the package, below /usr.
moves() {
    local package=$1 path
    shift
    for path; do
        mkdir -p "$work/$package/usr/$(dirname "$path")"
        mv "$work"/all/usr/$path "$work/$package/usr/$(dirname "$path")"
    done
}
rm -r "$work/all/usr/share/licenses"
moves libmmsb0 "lib/$triplet/libmmsb.so.*"
moves libmmsb-dev include "lib/$triplet"
moves mmsb bin share
mkdir -p "$work/mmsb/usr/share/zsh"
mv "$work/mmsb/usr/share/zsh/site-functions" "$work/mmsb/usr/share/zsh/vendor-completions"
gzip -9n "$work/mmsb/usr/share/man/man1/mmsb.1"
for file in "$work"/libmmsb0/usr/lib/"$triplet"/libmmsb.so.*.*.* "$work/mmsb/usr/bin/mmsb"; do
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$file"
done

chmod 644 "$work"/libmmsb0/usr/lib/"$triplet"/libmmsb.so.*.*.*

# The Python package finds the library where its wheel has one: there lies a link.
modules=usr/lib/python3/dist-packages
mkdir -p "$work/python3-mmsb/$modules"
MMSB_WHEEL_LIBRARY=$root/build/libmmsb.so MMSB_WHEEL_TOOL=$root/build/mmsb MMSB_WHEEL_PLATFORM=linux_$(uname -m) \
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$work/python3-mmsb/$modules" ./bindings/python
rm -r "$work/python3-mmsb/$modules/bin" "$work"/python3-mmsb/$modules/mmsb-*.dist-info/{RECORD,REQUESTED,direct_url.json} \
    "$work/python3-mmsb/$modules/mmsb/LICENSE"
echo dpkg > "$(echo "$work"/python3-mmsb/$modules/mmsb-*.dist-info)/INSTALLER"
ln -sf "../../../../$triplet/libmmsb.so.0" "$work/python3-mmsb/$modules/mmsb/_lib/libmmsb.so"

# documents PACKAGE: what Debian wants in /usr/share/doc.
documents() {
    local folder=$work/$1/usr/share/doc/$1
    mkdir -p "$folder"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: libmmsb\n\n'
        printf 'Files: *\nCopyright: %s the authors of libmmsb\nLicense: Apache-2.0\n' "$(date -ud "@$SOURCE_DATE_EPOCH" +%Y)"
        printf ' On Debian systems the text of the Apache License, version 2.0, is in\n /usr/share/common-licenses/Apache-2.0.\n'
    } > "$folder/copyright"
    gzip -9n < CHANGELOG.md > "$folder/changelog.gz"
    printf 'libmmsb (%s) unstable; urgency=medium\n\n  * Release %s: see changelog.gz.\n\n -- %s  %s\n' \
        "$release" "$version" "$maintainer" "$(date -ud "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')" |
        gzip -9n > "$folder/changelog.Debian.gz"
    folder=$work/$1/usr/share/lintian/overrides
    mkdir -p "$folder"
    {
        echo "# The package is not meant for Debian's archive, so no bug there asks for it."
        echo "$1: initial-upload-closes-no-bugs *"
    } > "$folder/$1"
}

# needs_libc FILE: the dependency on the newest glibc that the file asks for.
needs_libc() {
    echo "libc6 (>= $(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d _ -f 2))"
}

# builds PACKAGE SECTION SUMMARY FIELDS: the description follows on standard input.
builds() {
    local package=$1 section=$2 summary=$3 fields=$4 control=$work/$1/DEBIAN
    documents "$package"
    mkdir -p "$control"
    {
        printf 'Package: %s\nSource: libmmsb\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nSection: %s\nPriority: optional\n' \
            "$package" "$release" "$architecture" "$maintainer" "$section"
        printf 'Installed-Size: %s\n%s\nDescription: %s\n' \
            "$(du -k --apparent-size -s "$work/$package" | cut -f 1)" "$fields" "$summary"
        sed 's/^$/./; s/^/ /'
    } > "$control/control"
    (cd "$work/$package" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
    dpkg-deb --build --root-owner-group "$work/$package" "$work/debs" > /dev/null
}

library=$(echo "$work"/libmmsb0/usr/lib/"$triplet"/libmmsb.so.*.*.*)
mkdir -p "$work/debs" "$work/libmmsb0/DEBIAN"
echo "libmmsb 0 libmmsb0 (>= $minor), libmmsb0 (<< $next~)" > "$work/libmmsb0/DEBIAN/shlibs"
{
    echo "libmmsb.so.0 libmmsb0 #MINVER#, libmmsb0 (<< $next~)"
    echo "* Build-Depends-Package: libmmsb-dev"
    nm -D --defined-only --with-symbol-versions "$library" | awk -v version="$minor" \
        '$2 == "A" { print " " $3 "@" $3 " " version } $2 != "A" { sub("@@", "@"); print " " $3 " " version }' | sort
} > "$work/libmmsb0/DEBIAN/symbols"
echo "activate-noawait ldconfig" > "$work/libmmsb0/DEBIAN/triggers"
about='libmmsb keeps the state of a program in pages: byte buffers with an identity
in host memory, on a GPU or on disk. Changes are tracked; snapshots and a
journal restore them after the process has ended, also after a crash.
'
builds libmmsb0 libs "paged memory in host memory, on GPUs and on disk - library" \
    "Depends: $(needs_libc "$library")
Multi-Arch: same" << DESCRIPTION
$about
This package has the shared library.
DESCRIPTION
builds libmmsb-dev libdevel "paged memory in host memory, on GPUs and on disk - development" \
    "Depends: libmmsb0 (= $release)
Multi-Arch: same" << DESCRIPTION
$about
This package has the headers for C and C++, and what pkg-config and CMake read.
DESCRIPTION
builds mmsb utils "paged memory in host memory, on GPUs and on disk - tool" \
    "Depends: $(needs_libc "$work/mmsb/usr/bin/mmsb")" << DESCRIPTION
$about
This package has the tool mmsb, which reads the files that programs write:
snapshots, journals and stores. It does not need the library.
DESCRIPTION

# What dh_python3 writes: the modules are compiled when the package is installed.
mkdir "$work/python3-mmsb/DEBIAN"
cat > "$work/python3-mmsb/DEBIAN/postinst" << 'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "${DPKG_ROOT:-}" ] && command -v py3compile > /dev/null; then
    py3compile -p python3-mmsb
fi
SCRIPT
cat > "$work/python3-mmsb/DEBIAN/prerm" << 'SCRIPT'
#!/bin/sh
set -e
if [ -z "${DPKG_ROOT:-}" ] && command -v py3clean > /dev/null; then
    py3clean -p python3-mmsb
fi
SCRIPT
chmod 755 "$work"/python3-mmsb/DEBIAN/{postinst,prerm}
builds python3-mmsb python "paged memory in host memory, on GPUs and on disk - Python 3" \
    "Depends: libmmsb0 (= $release), python3 (>= 3.9~)
Suggests: python3-numpy" << DESCRIPTION
$about
This package has the module mmsb for Python 3.
DESCRIPTION

rm -rf "$folder"
mv "$work/debs" "$folder"
ls "$folder"/*.deb
