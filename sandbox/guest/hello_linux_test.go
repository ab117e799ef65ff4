package guest

import "testing"

func TestMapsUsers(t *testing.T) {
	for uidMap, want := range map[string]bool{
		"         0          0 4294967295\n":                              false,
		"         0      65536      65536\n":                              true,
		"         0       1000          1\n":                              true,
		"         0       1000          1\n         1     100000 65536\n": true,
	} {
		if got := mapsUsers(uidMap); got != want {
			t.Errorf("%q: %t", uidMap, got)
		}
	}
}
