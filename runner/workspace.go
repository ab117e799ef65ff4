package runner

import (
	"archive/tar"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/spec"
)

// writeTree writes files as tar. Paths are relative to where it is unpacked.
func writeTree(w io.Writer, files []File) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		if err := writeFile(out, f); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return out.Close()
}

func writeFile(out *tar.Writer, f File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	mode := int64(0o644)
	if f.Executable() {
		mode = 0o755
	}
	name := strings.TrimPrefix(f.Path, "/")
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: f.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(out, content, f.Size())
	return err
}

// writeLinks writes the links to mcp.json as tar, but for places where a file of
// the workspace stands.
func writeLinks(w io.Writer, files []File) error {
	out := tar.NewWriter(w)
	for _, link := range spec.ClientConfigs() {
		taken := slices.ContainsFunc(files, func(f File) bool { return f.Path == link })
		if taken {
			continue
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: MCPConfigPath, Mode: 0o777}); err != nil {
			return err
		}
	}
	return out.Close()
}
