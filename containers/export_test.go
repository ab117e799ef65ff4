package containers

import (
	"archive/tar"
	"bytes"
	"maps"
	"strings"
	"testing"
)

// Images in an archive are known by the digests of their configurations, and it is copied as it is.
func TestCopyArchive(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	var archive, copied bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range []struct{ name, content string }{
		{one + ".json", "{}"},
		{"manifest.json", `[{"Config": "` + one + `.json", "RepoTags": ["waza-guest:a", "r.example/x:b"]}, {"Config": "blobs/sha256/` + two + `", "RepoTags": ["team/y:1"]}, {"Config": "x", "RepoTags": null}]`},
		{"index.json", "{}"},
	} {
		if err := w.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(file.content))
	}
	_ = w.Close()
	archive.WriteString(strings.Repeat("\x00", 1<<16)) // what tar pads with
	written := bytes.Clone(archive.Bytes())
	ids, err := copyArchive(&copied, &archive)
	want := map[string]string{"docker.io/library/waza-guest:a": "sha256:" + one, "r.example/x:b": "sha256:" + one, "docker.io/team/y:1": "sha256:" + two}
	if err != nil || !maps.Equal(ids, want) || !bytes.Equal(copied.Bytes(), written) {
		t.Errorf("%v, %d bytes of %d, ids %q", err, copied.Len(), len(written), ids)
	}
	if _, err := copyArchive(&copied, strings.NewReader("no archive, but long enough to be read as one"+strings.Repeat("x", 1024))); err == nil {
		t.Error("what is no archive is copied")
	}
}
