# shellcheck shell=bash
# The compilers.

have_go() {
	if ! command -v go >/dev/null; then
		can_apt ||
			die "Go $(required_go) or later is needed to build waza, and there is no go on PATH"
		install_go
	fi
	# Fails when this Go is too old and cannot fetch the one go.mod asks for.
	(cd "$root" && go list -m) >/dev/null 2>&1 ||
		die "Go $(required_go) or later is needed to build waza, and this is $(go env GOVERSION)"
	say go "$(cd "$root" && go env GOVERSION)"
}

# install_go installs Debian's Go where that is new enough to fetch the one that
# go.mod asks for (1.21), else the one of Debian's backports.
install_go() {
	say go "installing golang-go"
	apt_install ca-certificates
	local candidate
	candidate=$(apt-cache policy golang-go | awk '$1 == "Candidate:" { sub(/^[0-9]+:/, "", $2); print $2 }')
	if dpkg --compare-versions "${candidate:-0}" ge 1.21; then
		apt_install golang-go
	else
		with_backports apt_install -t "$(codename)-backports" golang-go
	fi
}

codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# with_backports COMMAND...: runs the command with this machine's mirrors of Debian
# serving its backports too. Nothing of that stays in /etc.
with_backports() {
	mkdir "$scratch/sources"
	cp /etc/apt/sources.list.d/* "$scratch/sources/" 2>/dev/null || true
	# shellcheck disable=SC2016 # apt-get expands these
	apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v release="$(codename)" '$1 == "Debian" && $2 == release && $3 == "main" {
			print "deb", $4, release "-backports", "main"; exit
		}' >"$scratch/sources/waza-backports.list"
	printf 'Dir::Etc::sourceparts "%s";\n' "$scratch/sources" >"$scratch/apt.conf"
	APT_CONFIG=$scratch/apt.conf "$@"
}

required_go() { awk '$1 == "go" { print $2 }' "$root/go.mod"; }

have_cc() {
	if ! have_c_compiler; then
		can_apt || die "a C compiler is needed for tests with the race detector"
		say cc "installing gcc"
		apt_install gcc libc6-dev
	fi
	say cc "$(go env CC)"
	if ! command -v python3 >/dev/null; then
		can_apt || die "python3 is needed by servers of tests that run on this machine"
		say cc "installing python3"
		apt_install python3
	fi
}

have_c_compiler() {
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' >"$scratch/probe.c"
	"$(go env CC)" -o "$scratch/probe" "$scratch/probe.c" >/dev/null 2>&1
}
