package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/moby/moby/client"
)

// ScratchImage builds an image that contains only a static program, as /NAME, and removes
// it at the end of the test.
func ScratchImage(t testing.TB, ref, name, program string) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var sources bytes.Buffer
	out := tar.NewWriter(&sources)
	dockerfile := fmt.Sprintf("FROM scratch\nCOPY %s /%[1]s\n", name)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"Dockerfile", []byte(dockerfile)}, {name, content}} {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o755, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(file.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	built, err := c.ImageBuild(ctx, &sources, client.ImageBuildOptions{Tags: []string{ref}, Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = built.Body.Close() }()
	if log, err := io.ReadAll(built.Body); err != nil || bytes.Contains(log, []byte(`"error"`)) {
		t.Fatalf("build %s: %v\n%s", ref, err, log)
	}
	t.Cleanup(func() { DropImage(t, ref) })
}
