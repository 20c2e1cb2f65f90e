#!/usr/bin/env bash
# Puts a Chromium for tests into build/bin/chromium: the one on PATH, else Debian's extracted into build/chromium. Nothing is
# installed, and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
# What an earlier run put into build/bin is not the system's.
PATH=${PATH//"$PWD/build/bin:"/}
mkdir -p build/bin
if found=$(command -v chromium || command -v chromium-browser); then
    ln -sfn "$found" build/bin/chromium
    exit 0
fi
folder=$PWD/build/chromium
echo "no chromium on PATH: extracting Debian's into $folder"
tools/extract_debs.sh "$folder" chromium fonts-dejavu-core
rm -rf "$folder"/usr/share/{doc,man,locale,icons}
libraries=$(dirname "$(find "$folder/usr/lib" -name 'libnss3.so*' -print -quit)")
# Fonts and libraries are looked for in the folder, too.
printf '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig><dir>%s</dir><cachedir>%s</cachedir>%s\n' \
    "$folder/usr/share/fonts" "$folder/fonts.cache" '</fontconfig>' > "$folder/fonts.conf"
cat > build/bin/chromium.new <<WRAPPER
#!/bin/sh
LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio:$folder/lib/$(basename "$libraries")" FONTCONFIG_FILE="$folder/fonts.conf" \\
    exec "$folder/usr/lib/chromium/chromium" "\$@"
WRAPPER
chmod +x build/bin/chromium.new
mv build/bin/chromium.new build/bin/chromium
build/bin/chromium --version
