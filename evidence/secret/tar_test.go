package secret

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/internal/tree"
)

// tarOf is files as tar, by name; what ends in @ is a link, whose content is where it
// leads.
func tarOf(t interface{ Fatal(...any) }, names []string, contents ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, name := range names {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(contents[i])), Mode: 0o600, Uname: "who"}
		if link, ok := strings.CutSuffix(name, "@"); ok {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: contents[i]}
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, contents[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// blanked is a tree that goes through a TarWriter in pieces of a size.
func blanked(t interface{ Fatal(...any) }, s *Set, tarred []byte, piece int) ([]byte, *TarWriter) {
	var out bytes.Buffer
	w := NewTarWriter(s, &out)
	for rest := tarred; len(rest) > 0; {
		n := min(piece, len(rest))
		if _, err := w.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), w
}

func TestTarWriter(t *testing.T) {
	const secret = "hunter2!"
	long := strings.Repeat("d/", 120)
	s := &Set{}
	s.Add(secret, "a/TOKEN")
	s.Add("0000644") // digits of every header
	names := []string{"plain", "empty", long + secret, "by-" + secret, "link@", long + "link@", "encoded", "é" + secret, "last"}
	contents := []string{"no secret", "", "x", "is " + secret + " " + secret, "to/" + secret, long + secret, "6148567564475679", "y", strings.Repeat("z", 700) + secret}
	contents[6] = "aHVudGVyMiE="
	tarred := tarOf(t, names, contents...)
	for _, piece := range []int{1, 7, 512, 1 << 20} {
		got, w := blanked(t, s, tarred, piece)
		if len(got) != len(tarred) || bytes.Contains(got, []byte(secret)) {
			t.Fatalf("%d bytes became %d in pieces of %d, or hold the secret", len(tarred), len(got), piece)
		}
		in := tar.NewReader(bytes.NewReader(got))
		for i, name := range names {
			header, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(in)
			if header.Typeflag == tar.TypeSymlink {
				content = []byte(header.Linkname)
				name = strings.TrimSuffix(name, "@")
			}
			if err != nil || header.Name != strings.ReplaceAll(name, secret, "********") ||
				len(content) != len(contents[i]) || i != 6 && string(content) != s.String(contents[i]) {
				t.Errorf("%q: %q, %q, %v", name, header.Name, content, err)
			}
		}
		if _, err := in.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("behind the last: %v", err)
		}
		want := map[string]int{"by-********": 2, "encoded": 1, "last": 1}
		if !maps.Equal(w.Files(), want) || w.Found().Secrets["a/TOKEN"] < 8 {
			t.Errorf("found %v, %+v", w.Files(), w.Found())
		}
	}
	if got, _ := blanked(t, &Set{}, tarred, 100); !bytes.Equal(got, tarred) {
		t.Error("without secrets the tree is another")
	}
}

// A tree without secrets is not changed, and one with secrets keeps its length and contains
// none of them.
func TestTarOfAnything(t *testing.T) {
	const secret = "hunter2!"
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zé/]{0,130}e`)
		content := rapid.StringMatching(`[a-z0-9]{0,30}`)
		var names, contents []string
		for range rapid.IntRange(0, 4).Draw(t, "files") {
			names = append(names, "f"+name.Draw(t, "name"))
			contents = append(contents, content.Draw(t, "begin")+secret+content.Draw(t, "end"))
		}
		tarred := tarOf(t, names, contents...)
		for range rapid.IntRange(0, 3).Draw(t, "spoiled") {
			tarred[rapid.IntRange(0, len(tarred)-1).Draw(t, "at")] ^= 0x40
		}
		tarred = tarred[:rapid.IntRange(0, len(tarred)).Draw(t, "cut")]
		got, _ := blanked(t, set(secret), tarred, rapid.IntRange(1, 2000).Draw(t, "piece"))
		if want := bytes.ReplaceAll(tarred, []byte(secret), []byte("********")); len(got) != len(want) || bytes.Contains(got, []byte(secret)) {
			t.Fatalf("%q became %q", tarred, got)
		}
		if got, _ := blanked(t, set("none of it"), tarred, 64); !bytes.Equal(got, tarred) {
			t.Fatal("a tree without secrets is another")
		}
	})
}

// FuzzTarWriter checks that no reader finds a secret in a redacted tree, neither in an
// entry nor after the last readable one. Minimizing a tar takes Go about a minute per new
// input, during which it reports no executions; use -fuzzminimizetime 10x.
func FuzzTarWriter(f *testing.F) {
	f.Add(tarOf(f, []string{"a", strings.Repeat("b/", 100) + "hunter2!", "c@"}, "hunter2!", "", "hunter2!"), uint16(100))
	f.Fuzz(func(t *testing.T, tarred []byte, piece uint16) {
		s := set("hunter2!")
		got, w := blanked(t, s, tarred, int(piece)+1)
		if len(w.Files()) > maxTarFiles {
			t.Fatal(len(w.Files()))
		}
		clean := func(texts ...string) {
			for _, text := range texts {
				if strings.Contains(text, "hunter2!") {
					t.Fatalf("%q holds the secret", text)
				}
			}
		}
		raw := bytes.NewReader(got)
		for in, first := tar.NewReader(raw), true; ; first = false {
			header, err := in.Next()
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				if first {
					clean(string(got))
				}
				break
			}
			if (tree.Entry{Header: header}).HasHoles() { // they may be without an end
				break
			}
			content, _ := io.ReadAll(in)
			clean(header.Name, header.Linkname, header.Uname, header.Gname, string(content))
			for key, value := range header.PAXRecords {
				if !isField(key) {
					clean(value)
				}
			}
		}
		rest, _ := io.ReadAll(raw)
		clean(string(rest))
	})
}

// A tree with sparse files, whose content may be far larger than the archive, is copied
// unchanged and redacted as text.
func TestTarWithHoles(t *testing.T) {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 512, Mode: 0o600, Format: tar.FormatGNU}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.WriteHeader(header)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(append([]byte("hunter2!"), make([]byte, 504)...))
	_ = w.Close()
	tarred := out.Bytes()
	tarred[156] = tar.TypeGNUSparse
	copy(tarred[386:], "00000000000\x0000000001000\x00") // the one part that is no hole
	copy(tarred[483:], "77777777777\x00")                // the real size
	sum := 0
	for i, c := range tarred[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	copy(tarred[148:], fmt.Sprintf("%06o\x00 ", sum))
	if first, err := tar.NewReader(bytes.NewReader(tarred)).Next(); err != nil || first.Size < 1<<32 {
		t.Fatalf("no file with holes: %+v, %v", first, err)
	}
	got, _ := blanked(t, set("hunter2!"), tarred, 100)
	if want := bytes.ReplaceAll(tarred, []byte("hunter2!"), []byte("********")); !bytes.Equal(got, want) {
		t.Errorf("%d bytes became %d", len(tarred), len(got))
	}
}
