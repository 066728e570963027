#!/bin/sh
#  Runs the README's two commands where nothing is installed yet: in a root file system of Debian with the
#  minimal system, git and certificates, and a clone of this commit in root's home.  Packages and folders of
#  this machine cannot make them pass there.
#
#      sh scripts/fresh-root.sh [COMMAND...]
#
#  COMMAND    a line of shell, run in the clone; several run in turn, up to the first that fails.  Without
#             any: 'sh bench/demo.sh' 'sh tests/run.sh'.
#
#  Changes that are not committed are not in the clone.  The root takes packages from where this machine's apt
#  takes them.  It is removed at the end, with all that runs in it.  A command that leaves processes of the
#  clone, or its files in /tmp or /dev/shm, has failed.  Exit status: that of the command that failed, 1 for
#  what is left behind.  Needs root, mmdebstrap (`sh scripts/install-packages.sh root`), 8 GB in TMPDIR.
set -eu

tree=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
umask 022

fail () {
    echo "fresh-root.sh: $*" >&2
    exit 1
}

case ${1:-} in
--help | -h) sed -n '2,/^set/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
-*) fail "there is no option '$1'; usage: sh scripts/fresh-root.sh [COMMAND...]" ;;
esac
[ $# -gt 0 ] || set -- 'sh bench/demo.sh' 'sh tests/run.sh'
[ "$(id -u)" -eq 0 ] || fail "only root can mount and change the root directory: run it as root"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: sh scripts/install-packages.sh root"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

scratch=$(mktemp -d "${TMPDIR:-/tmp}/fresh-root.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
#  What takes long runs in the background: a shell that waits for a command in the foreground sees no signals.
child= signal=TERM
end () {
    [ -z "$child" ] || { kill -"$signal" "$child"; wait "$child" || :; }
    exit "$1"
} 2>/dev/null
trap 'end 130' INT
trap 'end 143' TERM
root=$scratch/root

echo "fresh-root.sh: Debian $suite, the minimal system"
sh "$tree/scripts/debian/sources.sh" >"$scratch/sources.list"
#  The root does not outlive this script: its packages need not reach the disk.
mmdebstrap --quiet --mode=root --variant=minbase --include=git,ca-certificates \
    --dpkgopt=force-unsafe-io "$suite" "$root" "$scratch/sources.list" >"$scratch/log" 2>&1 &
child=$!
wait "$child" || {
    tail -n 40 "$scratch/log" >&2
    fail "mmdebstrap failed; its last lines stand above"
}
child=
cp /etc/resolv.conf /etc/hosts "$root/etc/"
#  What this machine's operator trusts, such as a proxy's certificate, the root trusts too.
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
chroot "$root" update-ca-certificates >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
chmod 700 "$root/root"
#  Packages start no services there.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
git clone --quiet --no-hardlinks "$tree" "$root/root/tureen"

#  In the root: what the commands need of a running system, and the commands.
cat >"$scratch/inside" <<'INSIDE'
set -u
root=$1 status=0
shift
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -m 1777 "$root/run/lock"
mount -t proc proc "$root/proc"

in_clone () {
    env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${CI:+"CI=$CI"} ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
        ${no_proxy:+"no_proxy=$no_proxy"} \
        chroot "$root" sh -c 'cd /root/tureen && eval "$1"' sh "$1" </dev/null
}

#  The clone's processes and files.  What has been told to end may take a moment.
left () {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/root")" = "$root" ] || continue
        echo "process: $(readlink "$process/exe") $(tr '\0' ' ' <"$process/cmdline")"
    done 2>/dev/null | grep -F /root/tureen/ | sed "s,$root,,"
    find "$root/tmp" "$root/dev/shm" -mindepth 1 -maxdepth 1 \( -name '*tureen*' -o -name 'tu-*' \) \
        ! -name 'tureen-0' 2>/dev/null | sed "s,^$root,file: ,"
    find "$root/tmp/tureen-0" ! -type d 2>/dev/null | sed "s,^$root,file: ,"
}

began=$(date +%s)
for command in "$@"; do
    echo "fresh-root.sh (at $(($(date +%s) - began)) s): $command"
    in_clone "$command" || status=$?
    [ $status -eq 0 ] ||
        echo "fresh-root.sh: '$command' ended with $status (at $(($(date +%s) - began)) s)" >&2
    for second in 1 2 3 4 5; do
        [ -n "$(left)" ] || break
        sleep 1
    done
    if [ -n "$(left)" ]; then
        echo "fresh-root.sh: '$command' has left behind:" >&2
        left >&2
        [ $status -ne 0 ] || status=1
    fi
    [ $status -eq 0 ] || exit $status
done
INSIDE
#  /proc of the script's own processes, so that it sees those of the root and no others.
#  unshare itself heeds no other signal than SIGKILL, which ends all that it started.
unshare --mount --pid --ipc --uts --fork --kill-child --mount-proc \
    sh "$scratch/inside" "$root" "$@" &
child=$! signal=KILL
status=0
wait "$child" || status=$?
child=
exit $status
