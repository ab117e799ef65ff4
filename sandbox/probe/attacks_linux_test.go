package probe

import (
	"slices"
	"testing"
)

// Each attack of the list is tried, once, and no other is.
func TestAttempts(t *testing.T) {
	var listed, tried []string
	for _, a := range Attacks() {
		listed = append(listed, a.Name)
	}
	for _, a := range slices.Concat(attempts(), riskyAttempts()) {
		tried = append(tried, a.name)
	}
	slices.Sort(listed)
	slices.Sort(tried)
	if !slices.Equal(listed, tried) {
		t.Errorf("listed are %q, and tried are %q", listed, tried)
	}
}
