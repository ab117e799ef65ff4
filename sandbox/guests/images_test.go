package guests

import "testing"

func TestUserOf(t *testing.T) {
	users := map[string]string{"node": "1001:1002", "app:app": "7:8", "toor": "0:0"}
	tests := []struct{ wanted, image, want, insists string }{
		{"", "", "", ""},
		{"", "root", "", ""},
		{"", "0", "", ""},
		{"", "0:0", "", ""},
		{"", "root:staff", "", ""},
		{"", "node", "1001:1002", "its image"},
		{"", "65532", "65532:65532", "its image"},
		{"", "1001:0", "1001:1001", "its image"},
		{"", "toor", "0:0", "its image"},
		{"4711", "node", "4711:4711", "the eval"},
		{"4711:0", "node", "4711:0", "the eval"},
		{"4711:12", "root", "4711:12", "the eval"},
		{"app:app", "", "7:8", "the eval"},
	}
	for _, test := range tests {
		if got, insists := (Image{User: test.image, Users: users}).UserOf(test.wanted); got != test.want || insists != test.insists {
			t.Errorf("UserOf(%q) of %q = %q, %q, want %q, %q", test.wanted, test.image, got, insists, test.want, test.insists)
		}
	}
}
