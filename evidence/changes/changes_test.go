package changes

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

var roomy = Bounds{Entries: 1000, Read: 1 << 20, Files: 100, Text: 1 << 16, Total: 1 << 18}

func opener(tree []byte) Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tree)), nil }
}

// packed is a tar of entries, each as "path mode content"; content that begins with ->
// is a link's target.
func packed(t testing.TB, entries ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range entries {
		path, rest, _ := strings.Cut(entry, " ")
		mode, content, _ := strings.Cut(rest, " ")
		header := &tar.Header{Name: path, Typeflag: tar.TypeReg, Size: int64(len(content))}
		_, _ = fmt.Sscanf(mode, "%o", &header.Mode)
		if target, link := strings.CutPrefix(content, "->"); link {
			header.Typeflag, header.Linkname, header.Size, content = tar.TypeSymlink, target, 0, ""
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func short(c Change) string {
	text := fmt.Sprintf("%s %s +%d -%d", c.What, c.Path, c.Added, c.Removed)
	if c.Unshown != "" {
		text += " " + c.Unshown
	}
	return text
}

func TestWhatBecameOfATree(t *testing.T) {
	before := packed(t, "same 644 x\n", "gone 644 a\nb\n", "edited 644 one\ntwo\nthree\n", "run.sh 644 echo\n", "link 777 ->one", "blob 644 \x00a")
	after := packed(t, "same 644 x\n", "edited 644 one\n2\nthree\n", "run.sh 755 echo\n", "link 777 ->/etc/passwd", "blob 644 \x00b", "new 644 fresh\n", "bare 644 end")
	got, err := Of(opener(before), opener(after), roomy)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range got.Changes {
		all = append(all, short(c))
	}
	want := []string{
		"added bare +1 -0 one of the two has no line break at its end", "changed blob +0 -0 binary", "changed edited +1 -1", "removed gone +0 -2",
		"changed link +0 -0", "added new +1 -0", "changed run.sh +0 -0",
	}
	if !slices.Equal(all, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
	if got.Added != 2 || got.Removed != 1 || got.Changed != 4 || len(got.Gaps) != 0 {
		t.Errorf("%+v", got)
	}
	link := got.Changes[4]
	if link.Old.Target != "one" || link.New.Target != "/etc/passwd" {
		t.Errorf("a link went from %q to %q", link.Old.Target, link.New.Target)
	}
}

// Lines that changed stand with three around them; changes near each other stand together.
func TestHunks(t *testing.T) {
	numbers := func(change map[int]string) (text string) {
		for n := 1; n <= 20; n++ {
			line, changed := change[n]
			if !changed {
				line = fmt.Sprintln(n)
			}
			text += line
		}
		return text
	}
	before, after := numbers(nil), numbers(map[int]string{2: "two\n", 12: "", 18: "18\n@@ -1,2 +3,4 @@\n"})
	got, err := Of(opener(packed(t, "a 644 "+before, "b 644 ")), opener(packed(t, "a 644 "+after, "b 644 1")), roomy)
	if err != nil {
		t.Fatal(err)
	}
	var hunks []string
	for _, c := range got.Changes {
		for _, hunk := range c.Hunks {
			hunks = append(hunks, fmt.Sprintf("%d %d %s", hunk.Old, hunk.New, strings.Join(hunk.Lines, ",")))
		}
	}
	want := []string{"1 1  1,-2,+two, 3, 4, 5", "9 9  9, 10, 11,-12, 13, 14, 15", "16 15  16, 17, 18,+@@ -1,2 +3,4 @@, 19, 20", "1 1 +1"}
	if !slices.Equal(hunks, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(hunks, "\n"), strings.Join(want, "\n"))
	}
}

func TestBounds(t *testing.T) {
	empty := packed(t)
	many := packed(t, "a 644 1\n", "b 644 2\n", "c 644 3\n", "d 644 4\n")
	for _, test := range []struct {
		name  string
		most  func(*Bounds)
		check func(Tree) bool
	}{
		{"entries", func(b *Bounds) { b.Entries = 2 }, func(t Tree) bool { return t.Added == 2 && len(t.Gaps) == 1 }},
		{"bytes of a tar", func(b *Bounds) { b.Read = 1100 }, func(t Tree) bool { return t.Added == 2 && len(t.Gaps) == 1 }},
		{"files", func(b *Bounds) { b.Files = 3 }, func(t Tree) bool { return len(t.Changes) == 3 && t.More == 1 && t.Added == 4 }},
		{"a file", func(b *Bounds) { b.Text = 1 }, func(t Tree) bool { return t.Changes[0].Hunks == nil && t.Changes[0].Unshown != "" }},
		{"all lines", func(b *Bounds) { b.Total = 4 }, func(t Tree) bool { return t.Changes[1].Hunks != nil && t.Changes[2].Unshown != "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			most := roomy
			test.most(&most)
			got, err := Of(opener(empty), opener(many), most)
			if err != nil || !test.check(got) {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
}

func TestNoTreeOfBefore(t *testing.T) {
	missing := func() (io.ReadCloser, error) { return nil, fs.ErrNotExist }
	if _, err := Of(missing, opener(packed(t)), roomy); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func FuzzOf(f *testing.F) {
	f.Add(packed(f, "a 644 1\n", "l 777 ->a"), packed(f, "a 755 2\n"))
	f.Add([]byte{}, []byte("no tar"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		most := Bounds{Entries: 10, Read: 1 << 16, Files: 3, Text: 100, Total: 300}
		got, err := Of(opener(before), opener(after), most)
		if err != nil {
			t.Fatal(err)
		}
		reported := int64(0)
		for _, c := range got.Changes {
			for _, hunk := range c.Hunks {
				for _, line := range hunk.Lines {
					reported += int64(len(line) - len("+"))
				}
			}
		}
		if len(got.Changes) > most.Files || reported > most.Total {
			t.Fatalf("%d changes, %d bytes told", len(got.Changes), reported)
		}
	})
}
