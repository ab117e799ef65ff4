// Package heavytest marks tests that use too much memory or processor time to run under the
// race detector.
package heavytest

import "testing"

// Mark skips the test under the race detector. scripts/test finds its calls in the source,
// so they must be in the text of the test function or a closure in it, never in a helper.
func Mark(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("it uses much memory or time: run it without -race, as scripts/test does")
	}
}
