#!/bin/sh
#  Installs the Debian packages that Tureen needs, and only those that are missing: a second run asks dpkg
#  alone and needs neither root nor a network.
#
#      sh scripts/install-packages.sh GROUP...
#
#      GROUP     build, test, root, packaging, demo, bench, peers, ci
set -eu

package_group () {
    case $1 in
    build)
        echo build-essential cmake ninja-build pkg-config python3
        echo libzmq3-dev libczmq-dev libroaring-dev libjpeg62-turbo-dev
        echo libjansson-dev libsodium-dev libxxhash-dev
        echo liburing-dev libarchive-dev zlib1g-dev
        echo libpng-dev libwebp-dev libtiff-dev libsndfile1-dev libsoxr-dev libcurl4-openssl-dev libssl-dev
        echo libexpat1-dev libmicrohttpd-dev libjs-dygraphs libncurses-dev ;;
    test)
        echo libcmocka-dev python3 python3-numpy python3-zmq python3-xxhash python3-pil python3-torch \
            python3-torchvision python3-lmdb python3-zstandard python3-pip python3-yaml
        echo iproute2 curl openssl ;;
    root)
        echo mmdebstrap ;;
    packaging)
        echo debhelper dh-python dpkg-dev lintian debootstrap mmdebstrap bubblewrap podman crun runc \
            bash-completion zsh ;;
    demo)
        echo python3 python3-numpy python3-zmq python3-pil iproute2 ;;
    bench)
        echo gnuplot-nox ;;
    peers)
        echo python3-venv python3-dev libturbojpeg0-dev libopencv-dev s3fs rclone ;;
    ci)
        echo clang libclang-rt-14-dev llvm util-linux procps python3-venv
        echo swift-proxy swift-account swift-container swift-object python3-lxml memcached
        echo prometheus chromium chromium-driver python3-selenium etcd-server bindfs
        package_group root ;;
    *)
        echo "install-packages.sh: no group '$1'; there are" \
            "build, test, root, packaging, demo, bench, peers and ci" >&2
        return 1 ;;
    esac
}

if [ $# -eq 0 ]; then
    echo "usage: sh scripts/install-packages.sh GROUP..." \
        "(build, test, root, packaging, demo, bench, peers, ci)" >&2
    exit 2
fi
wanted=
for group in "$@"; do
    packages=$(package_group "$group") || exit 2
    wanted="$wanted $packages"
done
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "install-packages.sh: this is no Debian (no dpkg-query); install these by hand:" $wanted >&2
    exit 1
fi

#  dpkg-query fails if any package is unknown to it; what it prints of the others is right all the same.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
    sed -n 's/ installed$//p' || true)
missing=
for package in $wanted; do
    printf '%s\n' "$installed" | grep -qxF -- "$package" && continue
    case " $missing " in *" $package "*) continue ;; esac
    missing="${missing:+$missing }$package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    #  Without a terminal no password can be typed: then sudo must do without one, or fail at once.
    if [ -t 0 ]; then as_root=sudo; else as_root="sudo -n"; fi
else
    echo "install-packages.sh: packages are missing, and there is neither root nor sudo to install them:" >&2
    echo "    apt-get install --no-install-recommends $missing" >&2
    exit 1
fi

apt () {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

echo "installing: $missing"
if ! { apt update && apt install -y --no-install-recommends $missing; }; then
    echo "install-packages.sh: apt-get failed; still missing: $missing" >&2
    exit 1
fi
