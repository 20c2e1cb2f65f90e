#!/usr/bin/env bash
# tools/install.sh PREFIX: copies the built library, what C and C++ programs need to find it, and the tool mmsb. `make install`
# and `cmake --install` both come here. For packagers: DESTDIR is put before PREFIX, and LIBDIR is the libraries' folder below it.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${DESTDIR:-}$1
libdir=${LIBDIR:-lib}
libraries=$prefix/$libdir

number() {
    awk -v name="MMSB_VERSION_$1" '$2 == name { print $3 }' include/mmsb.h
}
version=$(number MAJOR).$(number MINOR).$(number PATCH)

install -d "$prefix"/{bin,include,share/licenses/mmsb} "$libraries"/{cmake/mmsb,pkgconfig}
install -m 755 build/libmmsb.so "$libraries/libmmsb.so.$version"
ln -sfn "libmmsb.so.$version" "$libraries/libmmsb.so.0"
ln -sfn libmmsb.so.0 "$libraries/libmmsb.so"
install -m 644 include/mmsb.h include/mmsb.hpp "$prefix/include"
install -m 644 LICENSE "$prefix/share/licenses/mmsb/LICENSE"
install -m 755 build/mmsb "$prefix/bin/mmsb"
(cd build && find share -type f) | while read -r file; do
    install -D -m 644 "build/$file" "$prefix/$file"
done
# What programs are told of the prefix is relative, so that it can be moved.
up=$(realpath -ms --relative-to="/$libdir" /)
for file in cmake/mmsb/mmsb-config.cmake cmake/mmsb/mmsb-config-version.cmake pkgconfig/mmsb.pc; do
    sed "s/@VERSION@/$version/g; s,@UP@,$up,g; s,@LIBDIR@,$libdir,g" "cmake/$(basename "$file").in" > "$libraries/$file"
done
echo "libmmsb $version is in $prefix"
