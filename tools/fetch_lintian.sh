#!/usr/bin/env bash
# Puts lintian, which checks Debian packages, into build/bin/lintian: the one on PATH, else Debian's extracted into build/lintian.
set -euo pipefail
cd "$(dirname "$0")/.."
# What an earlier run put into build/bin is not the system's.
PATH=${PATH//"$PWD/build/bin:"/}
mkdir -p build/bin
if found=$(command -v lintian); then
    ln -sfn "$found" build/bin/lintian
    exit 0
fi
folder=$PWD/build/lintian
echo "no lintian on PATH: extracting Debian's into $folder"
tools/extract_debs.sh "$folder" lintian
libraries=$folder/usr/lib/$(gcc -dumpmachine)
cat > build/bin/lintian.new << WRAPPER
#!/bin/sh
PATH="\$PATH:$folder/usr/bin" LD_LIBRARY_PATH="$libraries" PERL5LIB="$folder/usr/share/perl5:$(echo "$libraries"/perl5/5.*)" \\
    exec "$folder/usr/bin/lintian" "\$@"
WRAPPER
chmod +x build/bin/lintian.new
mv build/bin/lintian.new build/bin/lintian
build/bin/lintian --version
