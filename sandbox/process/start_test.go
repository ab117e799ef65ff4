package process_test

import (
	"slices"
	"testing"

	"github.com/waza-isolate/waza/sandbox/process"
)

func TestLastOfEach(t *testing.T) {
	got := process.LastOfEach([]string{"A=1", "B=2", "A=3", "C", "B="})
	if want := []string{"A=3", "C", "B="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
