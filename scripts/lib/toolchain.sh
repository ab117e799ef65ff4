# shellcheck shell=bash
# The compilers.

have_go() {
	command -v go >/dev/null ||
		die "Go $(required_go) or later is needed to build waza, and there is no go on PATH"
	# Fails when this Go is too old and cannot fetch the one go.mod asks for.
	(cd "$root" && go list -m) >/dev/null 2>&1 ||
		die "Go $(required_go) or later is needed to build waza, and this is $(go env GOVERSION)"
	say go "$(cd "$root" && go env GOVERSION)"
}

required_go() { awk '$1 == "go" { print $2 }' "$root/go.mod"; }

have_cc() {
	if ! have_c_compiler; then
		can_apt || die "a C compiler is needed for tests with the race detector"
		say cc "installing gcc"
		apt_install gcc libc6-dev
	fi
	say cc "$(go env CC)"
}

have_c_compiler() {
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' >"$scratch/probe.c"
	"$(go env CC)" -o "$scratch/probe" "$scratch/probe.c" >/dev/null 2>&1
}
