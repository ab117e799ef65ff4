// Package heavytest marks tests that move too much memory to run under the race detector.
package heavytest

import "testing"

// Mark skips the test under the race detector. scripts/test finds its calls in the
// sources, so they stand in the text of the test that is to be run again, in a closure of
// it too, and never in a helper.
func Mark(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("it moves much memory: run it without -race, as scripts/test does")
	}
}
