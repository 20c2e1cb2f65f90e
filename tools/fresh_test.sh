#!/usr/bin/env bash
# tools/fresh_test.sh [COMMAND...]: runs the README's two commands, or COMMAND, on the last commit in a bare Debian 12 that has
# only the packages that the README lists, as an ordinary user. Hidden needs show there.
#
# The machine's settings for package registries, proxies and certificates go in by environment. Needs root, or user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."
system=$PWD/build/fresh-root

packages=(git make gcc g++ python3 python3-venv ca-certificates)
listed=" $(grep 'apt-get install' README.md) "
for package in "${packages[@]}"; do
    if [[ $package != ca-certificates && $listed != *" $package "* ]]; then
        echo "README.md does not list $package" >&2
        exit 1
    fi
done
(($#)) || set -- bash -c 'make demo && make test'

namespaces=(unshare --mount --pid --fork)
mode=root
if ((EUID != 0)); then
    namespaces=(unshare --user --map-auto --map-root-user --mount --pid --fork)
    mode=unshare
fi
if ! "${namespaces[@]}" true; then
    echo "Needs root, or user namespaces: an enabled kernel.unprivileged_userns_clone, the package uidmap, and a range of" \
        "ids for $(id -un) in /etc/subuid and /etc/subgid." >&2
    exit 1
fi

tools/extract_debs.sh build/mmdebstrap mmdebstrap
"${namespaces[@]}" rm -rf "$system"
perl build/mmdebstrap/usr/bin/mmdebstrap --quiet --mode="$mode" --variant=apt --include="$(IFS=,; echo "${packages[*]}")" \
    bookworm "$system"

git clone --quiet --no-hardlinks --bare . build/fresh-clone.new
rm -rf build/fresh-clone
mv build/fresh-clone.new build/fresh-clone

settings=(HOME=/srv/somebody USER=somebody LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "CI=${CI:-}")
while IFS='=' read -r -d '' name value; do
    case $name in
    PIP_FIND_LINKS) ;; # a folder of this machine
    PIP_* | GOPROXY | GOSUMDB | GONOSUMDB | GOPRIVATE | *_proxy | *_PROXY | SSL_CERT_* | *_CA_BUNDLE | GIT_SSL_CAINFO)
        settings+=("$name=$value")
        ;;
    esac
done < <(env -0)

# As root of the namespaces: the user, a few files of the machine, and then the command as that user.
export system
"${namespaces[@]}" bash -euo pipefail -c '
    chroot "$system" useradd --create-home --home-dir /srv/somebody somebody
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [[ ! -e $file ]] || cp "$file" "$system$file"
    done
    cp -r build/fresh-clone "$system/srv/somebody/origin"
    chroot "$system" chown -R somebody: /srv/somebody
    mount -t proc proc "$system/proc"
    mount --rbind /dev "$system/dev"
    exec chroot --userspec=somebody:somebody "$system" env --ignore-environment "$@"
' fresh "${settings[@]}" bash -euo pipefail -c 'cd && git clone --quiet origin libmmsb && cd libmmsb && "$@"' fresh "$@"
