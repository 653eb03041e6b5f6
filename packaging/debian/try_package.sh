#!/bin/bash
# Runs in a clean Debian, as root: installs /package.deb, tries what is in it, removes it.
set -euo pipefail

fail() {
    echo "package: $1"
    exit 1
}

# Each file, with its mode and owner; what Debian itself writes when any package comes or goes is left out.
everything() {
    find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /dev -o -path /proc -o -path /run -o -path /tmp \) -prune \
        -o -printf '%y %m %u %p\n' | LC_ALL=C sort
}

(umask 0 && mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9)
everything >/tmp/before

dpkg --install /package.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail 'does not install'; }
[ -z "$(dpkg --verify threadseal)" ] || fail 'files differ from their digests'
threadseal --version

# Runs a command as a user without rights, in a folder of its own.
mkdir -m 700 /tmp/tester && chown 61184:61184 /tmp/tester && cd /tmp/tester
as_user=(setpriv --reuid 61184 --regid 61184 --clear-groups env HOME=/tmp/tester THREADSEAL_HOME=/tmp/tester/home)
"${as_user[@]}" threadseal demo >/tmp/demo.txt || { cat /tmp/demo.txt; fail 'demo'; }
grep -q '^tampered ' /tmp/demo.txt || fail 'the demonstration shows no attack'
echo "demo: $(grep -c . /tmp/demo.txt) lines"

for page in threadseal threadseal-verify threadseal-witness-serve threadseal-worker; do
    man -P cat "$page" >/tmp/page.txt 2>/tmp/man.err || fail "man $page"
    grep -q "^NAME" /tmp/page.txt || fail "man $page has no name"
    [ ! -s /tmp/man.err ] || { cat /tmp/man.err; fail "man $page warns"; }
done
echo "manual: $(find /usr/share/man/man1 -name 'threadseal*' | wc -l) pages"

# Each shell completes `threadseal ver` to `verify`.
bash -c 'source /usr/share/bash-completion/bash_completion
    _completion_loader threadseal || true
    COMP_WORDS=(threadseal ver) COMP_CWORD=1
    _threadseal threadseal ver threadseal
    printf "%s\n" "${COMPREPLY[@]}"' >/tmp/bash.txt
grep -qx verify /tmp/bash.txt || fail 'bash completes nothing'
"${as_user[@]}" fish -c 'complete -C "threadseal ver"' >/tmp/fish.txt
grep -q '^verify' /tmp/fish.txt || fail 'fish completes nothing'
"${as_user[@]}" zsh -f -c 'autoload -Uz compinit && compinit -D && print -r -- $_comps[threadseal] && autoload +X _threadseal' >/tmp/zsh.txt
grep -qx _threadseal /tmp/zsh.txt || fail 'zsh knows no completion'
echo 'completions: bash, fish, zsh'

# What the unit of the witness runs, by such a user; systemd checks the rest of the units.
systemd-analyze verify threadseal-witness.service threadseal-worker@tour.service >/tmp/units.txt 2>&1 ||
    { cat /tmp/units.txt; fail 'units'; }
commands_of() {
    sed -n "s/^$1=//p" /usr/lib/systemd/system/threadseal-witness.service
}
# Twice, as at a restart: what is there stays.
for _ in first again; do
    "${as_user[@]}" sh -ec "$(commands_of ExecStartPre)" >/tmp/witness.txt || { cat /tmp/witness.txt; fail 'the witness is not set up'; }
done
"${as_user[@]}" WITNESS_OPTIONS='--listen 127.0.0.1:0' sh -c "exec $(commands_of ExecStart)" >/tmp/witness.txt &
witness=$!
timeout 20 sh -c 'until grep -q "^listens " /tmp/witness.txt; do sleep 0.1; done' ||
    { cat /tmp/witness.txt; fail 'the witness does not listen'; }
kill "$witness"
wait "$witness" || true
for unit in threadseal-witness.service threadseal-worker@.service; do
    [ ! -e "/etc/systemd/system/multi-user.target.wants/$unit" ] || fail "$unit is enabled"
done
echo 'units: good; the witness listens'

[ -s /usr/share/doc/threadseal/copyright ] || fail 'no copyright'
zgrep -q '^ring ' /usr/share/doc/threadseal/linked-crates.gz || fail 'no licences of linked crates'

cd /
dpkg --purge threadseal >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail 'does not purge'; }
everything >/tmp/after
diff /tmp/before /tmp/after >/tmp/remains || { cat /tmp/remains; fail 'removal leaves these files, or took them'; }
echo 'removed: nothing remains'
