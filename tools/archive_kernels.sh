#!/usr/bin/env bash
# tools/archive_kernels.sh FOLDER: FOLDER/libmmsb_kernels.a, which has nothing but the image of the kernels, kernels.fatbin of the
# folder above. What devices run is the same on every machine. CC is the compiler of the machine that links it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
mkdir -p "$folder"
work=$(mktemp -d "$folder/.work-XXXXXX")
trap 'rm -rf "$work"' EXIT

cat > "$work/image.S" << ASSEMBLER
    .section .rodata
    .balign 64
    .globl mmsb__kernel_image
    .globl mmsb__kernel_image_end
    .hidden mmsb__kernel_image
    .hidden mmsb__kernel_image_end
mmsb__kernel_image:
    .incbin "$(dirname "$folder")/kernels.fatbin"
mmsb__kernel_image_end:
    .section .note.GNU-stack, "", %progbits
ASSEMBLER
"${CC:-gcc}" -c "$work/image.S" -o "$work/image.o"
(cd "$work" && ar rcD libmmsb_kernels.a image.o)
mv "$work/libmmsb_kernels.a" "$folder/libmmsb_kernels.a"
