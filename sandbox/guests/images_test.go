package guests

import (
	"strings"
	"testing"
)

// No list names an image by what can come to stand for another.
func TestReadImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	for reference, fits := range map[string]bool{
		digest: true, "registry.example:5000/team/x@" + digest: true, "x:1@" + digest: true,
		"": false, "x": false, "x:latest": false, "registry.example/x:1": false, "docker.io/library/waza-guest:abc": false,
		"x@sha256:0f": false, digest + "0": false, "sha512:" + strings.Repeat("0f", 64): false, "x y@" + digest: false, digest + "\n": false, "@" + digest: false,
	} {
		list := func(own, other string) string {
			return `{"images": {"": {"reference": "` + own + `"}, "x": {"reference": "` + other + `"}}}`
		}
		for _, text := range []string{list(reference, digest), list(digest, reference)} {
			text = strings.ReplaceAll(text, "\n", `\n`)
			if _, err := ReadImages([]byte(text)); (err == nil) != fits {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if _, err := ReadImages([]byte(`{"images": {"x": {"reference": "` + digest + `"}}}`)); err == nil {
		t.Error("a list without the guest's own image is accepted")
	}
}

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
