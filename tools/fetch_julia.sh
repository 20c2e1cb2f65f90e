#!/bin/sh
# Puts a Julia that works into build/julia/usr/bin/julia.
#
# A Julia >= 1.5 on PATH is used as it is: build/julia/usr/bin/julia becomes a link to it. Otherwise Julia 1.5.3 and the
# libraries it needs are taken from Debian 11 (bullseye) packages, which are downloaded with apt's signature checks and
# unpacked below build/. Nothing is installed, nothing outside build/ changes, and no root is needed.
#
# usage: tools/fetch_julia.sh
# MMSB_DEBIAN_MIRROR  the Debian archive to use; by default the one in this machine's own apt sources.
set -eu

suite=bullseye
wanted='julia=1.5.3*'
# The machine has these already, at least as new; Debian 11's own would break programs that Julia starts.
left_out='libc6 libgcc-s1 libstdc++6 gcc-10-base libcrypt1 zlib1g debconf perl perl-base'

root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/build/julia
work=$root/build/julia.partial
log=$root/build/julia.log

say() { printf 'julia: %s\n' "$*"; }
fail() {
    printf 'julia: %s\n' "$*" >&2
    printf 'julia: install Julia 1.5 or newer yourself and put it on PATH; then run this again\n' >&2
    exit 1
}

# Exceptions in a compiled function are tried because Debian 11's Julia with Debian 12's libunwind dies on them.
usable() {
    "$1" --startup-file=no --history-file=no -e '
        caught() = try throw(ErrorException("thrown")) catch; true end
        exit(caught() && VERSION >= v"1.5" ? 0 : 1)' >/dev/null 2>&1
}

# URI of the first Debian archive that apt's sources name, in the old form (deb URI …) or the new (URIs: …).
debian_archive() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
        /^[[:space:]]*#/ { next }
        $1 == "deb" || $1 == "URIs:" {
            for (i = 2; i <= NF; i++)
                if ($i ~ /^[a-z+]+:\/\/.*\/debian\/?$/) { print $i; exit }
        }'
}

# Own lists, state and cache; from the machine's settings only how it reaches the network. Hooks are left out: they would
# touch the system's caches.
write_apt_configuration() {
    {
        apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' || true
        cat <<CONFIGURATION
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Dir::Log "$work/apt/log";
APT::Sandbox::User "";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
CONFIGURATION
    } >"$work/apt/apt.conf"
}

fetch() {
    for tool in apt-get apt-config dpkg dpkg-deb; do
        command -v "$tool" >/dev/null || fail "no usable Julia on PATH, and no $tool to take Debian's packages with"
    done
    architecture=$(dpkg --print-architecture)
    case $architecture in
    amd64) triplet=x86_64-linux-gnu ;;
    arm64) triplet=aarch64-linux-gnu ;;
    *) fail "Debian's Julia is not used on the architecture $architecture" ;;
    esac
    mirror=${MMSB_DEBIAN_MIRROR:-$(debian_archive)}
    [ -n "$mirror" ] || fail 'apt sources name no Debian archive; set MMSB_DEBIAN_MIRROR to the URI of one'

    rm -rf "$work"
    mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/log" "$work/debian"
    : >"$work/apt/status"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    signed=
    [ -r "$keyring" ] && signed="[signed-by=$keyring] "
    printf 'deb %s%s %s main\n' "$signed" "$mirror" "$suite" >"$work/apt/sources.list"
    write_apt_configuration

    say "no usable Julia on PATH: taking Julia 1.5.3 from Debian $suite ($mirror), about 80 MB"
    {
        APT_CONFIG=$work/apt/apt.conf apt-get -q -y update &&
            APT_CONFIG=$work/apt/apt.conf apt-get -q -y --download-only install "$wanted"
    } >"$log" 2>&1 || fail "apt-get failed, see $log: $(grep -E '^(E|W|Err):' "$log" | head -n 3 | tr '\n' ' ')"

    say "unpacking into $target"
    for package in "$work"/apt/cache/archives/*.deb; do
        name=$(basename "$package")
        case " $left_out " in
        *" ${name%%_*} "*) continue ;;
        esac
        dpkg-deb -x "$package" "$work/debian" || fail "cannot unpack $name"
    done
    rm -rf "$work/apt" "$work/debian/usr/share/doc" "$work/debian/usr/share/man"

    mkdir -p "$work/usr/bin"
    cat >"$work/usr/bin/julia" <<WRAPPER
#!/bin/sh
# Julia with the libraries of its own Debian release, its libunwind above all, and its own folder for compiled packages.
here=\$(dirname "\$(readlink -f "\$0")")/../..
debian=\$here/debian
libraries=\$debian/usr/lib/$triplet
before=\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=\$libraries/julia:\$libraries:\$debian/lib/$triplet
LD_LIBRARY_PATH=\$LD_LIBRARY_PATH:\$libraries/openblas-pthread:\$libraries/blas:\$libraries/lapack\$before
JULIA_DEPOT_PATH=\${JULIA_DEPOT_PATH:-\$here/depot}
export LD_LIBRARY_PATH JULIA_DEPOT_PATH
exec "\$debian/usr/bin/julia" "\$@"
WRAPPER
    chmod +x "$work/usr/bin/julia"
    usable "$work/usr/bin/julia" || fail "the Julia that was unpacked into $work does not run"
}

mkdir -p "$root/build"
# One at a time: whoever comes second waits and finds the work done.
if command -v flock >/dev/null; then
    exec 9>"$root/build/julia.lock"
    flock 9
fi
stamp=$(cksum <"$0")
if [ -x "$target/usr/bin/julia" ] && [ "$(cat "$target/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

found=$(command -v julia || true)
case $(readlink -f "$found") in
"$target"/*) found= ;;
esac
if [ -n "$found" ] && usable "$found"; then
    rm -rf "$work"
    mkdir -p "$work/usr/bin"
    ln -s "$found" "$work/usr/bin/julia"
    say "using $found"
else
    [ -z "$found" ] || say "$found is older than 1.5 or does not work"
    fetch
fi
printf '%s\n' "$stamp" >"$work/stamp"
rm -rf "$target"
mv "$work" "$target"
say "ready: $target/usr/bin/julia ($("$target/usr/bin/julia" --version))"
