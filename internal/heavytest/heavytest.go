// Package heavytest marks tests that the race detector makes ten times as slow, by the
// memory they move, and that have no more to show it than lighter ones do. scripts/test
// runs all tests under the detector and then, without it, those that are marked.
package heavytest

import "testing"

// Mark skips the test under the race detector. scripts/test finds the calls of Mark in
// the sources: it is called as heavytest.Mark(t), in the test's own function.
func Mark(t testing.TB) {
	t.Helper()
	if detector {
		t.Skip("it moves much memory: run it without -race, as scripts/test does")
	}
}
