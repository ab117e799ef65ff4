// Package treetest creates tar archives for tests, including hostile ones.
package treetest

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"
)

// Entry is an entry of a tar; by default a regular file.
type Entry struct {
	Name, Content, Link string
	Kind                byte
}

// Tar returns entries as tar, in order and with unchanged names.
func Tar(t testing.TB, mode int64, entries ...Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if e.Kind == 0 {
			e.Kind = tar.TypeReg
		}
		header := &tar.Header{Name: e.Name, Typeflag: e.Kind, Linkname: e.Link, Mode: mode, Size: int64(len(e.Content))}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
