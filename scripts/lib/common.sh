# shellcheck shell=bash
# Small words that every step of scripts/setup uses.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# say STEP TEXT: one line of progress.
say() { printf '%-8s %s\n' "$1" "$2"; }

die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

# quietly SENTENCE COMMAND...: runs the command silently. When it fails, shows
# what it said and ends with the sentence.
quietly() {
	local sentence=$1 log=$scratch/log.$BASHPID
	shift
	"$@" >"$log" 2>&1 </dev/null 9>&- && return # 9 is that of lock
	tail -n 40 "$log" >&2
	die "$sentence"
}

# at_most SECONDS COMMAND...: runs the command with a time limit where the
# system can set one.
at_most() {
	local seconds=$1
	shift
	if command -v timeout >/dev/null; then
		timeout "$seconds" "$@"
	else
		"$@"
	fi
}

# can_apt: whether this process may install Debian packages.
can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
	export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
	[ -n "$(find /var/lib/apt/lists -name '*_Packages*' -cmin -10 2>/dev/null)" ] || quietly "apt-get update failed" \
		apt-get update -q -o DPkg::Lock::Timeout=120
	quietly "apt-get could not install $*" \
		apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

# lock waits until no other setup is at work on this machine. The lock ends with this
# process: what it starts for longer must not inherit descriptor 9.
lock() {
	local file=/tmp/waza-setup.lock
	command -v flock >/dev/null || return 0
	[ -e "$file" ] || (umask 0 && : >>"$file") || return 0
	exec 9<"$file"
	flock --nonblock 9 && return
	say setup "another setup is at work; waiting for it"
	flock 9
}
