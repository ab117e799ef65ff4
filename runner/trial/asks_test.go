package trial

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/tree/treetest"
)

// FuzzReadFound reads what a hostile container says of a path.
func FuzzReadFound(f *testing.F) {
	f.Add(treetest.Tar(f, 0o644, treetest.Entry{Name: "a", Content: "x"}), "/a")
	f.Add([]byte("x"), "/a")
	f.Fuzz(func(t *testing.T, found []byte, path string) {
		a, err := readFound(bytes.NewReader(found), evidence.FileAsk{Path: path, Content: true})
		switch {
		case err != nil && !errors.Is(err, errUnanswered):
			t.Error(err)
		case err == nil && a.Kind != "" && a.Content == nil && a.Unread == "":
			t.Errorf("%+v", a)
		}
	})
}
