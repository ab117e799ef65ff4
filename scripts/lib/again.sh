# shellcheck shell=bash
# Tests that failed beside others, run again by themselves. Other tests, and whatever
# else runs on the machine, can starve a test of the engine and of processors; a fault of
# ours fails it alone, too. What passes then is named, for somebody to look at.

# more than this many are no accident
max_again=4

# failed_tests FILE: a line of "PACKAGE TEST..." for each package whose tests failed in
# go test's output; fails where a package failed in another way.
failed_tests() {
	awk '
		/^--- FAIL: / { names = names " " $3; next }
		/^(panic|fatal error): / || /^WARNING: DATA RACE/ { other = 1; next }
		/^ok[ \t]/ || /^\?[ \t]/ { names = ""; next }
		/^FAIL[ \t]/ {
			if (names == "" || other) exit 1
			print $2 names
			names = ""
		}' "$1"
}

# again FILE: runs the failed tests of go test's output once more, one by one.
again() {
	local failed package tests name count=0
	failed=$(failed_tests "$1") && [ -n "$failed" ] || return 1
	count=$(($(wc -w <<<"$failed") - $(wc -l <<<"$failed")))
	[ "$count" -le "$max_again" ] || return 1
	while read -r package tests; do
		for name in $tests; do
			printf '== again, by itself: %s of %s\n' "$name" "$package"
			go test -race -count=1 -timeout="${TIMEOUT:-60m}" -run "^$name\$" "$package" || return 1
		done
	done <<<"$failed"
	printf '== UNSTABLE: failed beside others, passed alone:\n%s\n' "$failed"
}
