#!/usr/bin/env bash
# cmake and pkg-config need not be on the machine: the pinned wheels bring them. $root is the tree.
if ! command -v cmake > /dev/null || ! command -v pkg-config > /dev/null; then
    wheels=$root/build/venv-install
    { [[ -x $wheels/bin/cmake && -x $wheels/bin/pkgconf ]] ||
        { python3 -m venv "$wheels" &&
            "$wheels/bin/python" -m pip install --quiet -r tools/requirements/install.txt; }; } || exit 1
    command -v cmake > /dev/null || ln -sfn "$wheels/bin/cmake" build/bin/cmake
    # The program itself: the wheel's own wrapper of it prints nothing.
    command -v pkg-config > /dev/null ||
        ln -sfn "$(echo "$wheels"/lib/python3*/site-packages/pkgconf/.bin/pkgconf)" build/bin/pkg-config
fi
