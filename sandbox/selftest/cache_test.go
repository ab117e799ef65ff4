package selftest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
)

func sample() evidence.Certificate {
	c := evidence.Certificate{
		Probed: evidence.ProbedNow, At: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Engine: map[string]string{"id": "ENGINE", "version": "20.10", "kernel": "6.1", "guest": "abc"},
		Kind:   evidence.SandboxKind{Network: "bridge", Workspace: "tmpfs"},
	}
	for _, a := range probe.Attacks() {
		c.Attacks = append(c.Attacks, evidence.Attack{Name: a.Name, Goal: a.Goal, Result: evidence.AttackHeld, Detail: "permission denied"})
	}
	return c
}

func kept(t *testing.T) (Cache, evidence.Certificate) {
	t.Helper()
	cache, c := OpenCache(t.TempDir()), sample()
	if err := cache.Keep(c); err != nil {
		t.Fatal(err)
	}
	return cache, c
}

func TestCache(t *testing.T) {
	cache, want := kept(t)
	got, ok := cache.Find(want.Engine, want.Kind, want.At.Add(validity))
	want.Probed = evidence.ProbedCached
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("found %t (-want +got):\n%s", ok, diff)
	}
}

// Another build may plan weaker sandboxes for the same guest.
func TestCacheOfAnotherBuild(t *testing.T) {
	cache := OpenCache(t.TempDir())
	c := sample()
	must(t, cache.Of("one").Keep(c))
	if _, ok := cache.Of("two").Find(c.Engine, c.Kind, c.At); ok {
		t.Error("the certificate of one build counts for another")
	}
	if _, ok := cache.Of("one").Find(c.Engine, c.Kind, c.At); !ok {
		t.Error("it does not count for its own")
	}
}

// What was allowed to one run is not allowed to the next.
func TestCacheForgetsWhatWasAllowed(t *testing.T) {
	cache, c := OpenCache(t.TempDir()), sample()
	c.Attacks[0].Result = evidence.AttackGotOut
	if holes := markAllowed(&c, []string{c.Attacks[0].Name}); len(holes) != 0 || !c.Attacks[0].Allowed {
		t.Errorf("holes %q", holes)
	}
	if err := cache.Keep(c); err != nil {
		t.Fatal(err)
	}
	got, ok := cache.Find(c.Engine, c.Kind, c.At)
	if !ok || len(markAllowed(&got, nil)) != 1 {
		t.Errorf("found %t, %+v", ok, got.Attacks[0])
	}
}

// Nothing but a whole, recent certificate of ours for the very same counts.
func TestCacheRefuses(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name   string
		after  time.Duration
		change func(t *testing.T, path string, c *evidence.Certificate)
	}{
		{"too old", validity + time.Second, nil},
		{"from the future", -time.Second, nil},
		{"another version of the engine", hour, func(_ *testing.T, _ string, c *evidence.Certificate) { c.Engine["version"] = "29" }},
		{"another guest", hour, func(_ *testing.T, _ string, c *evidence.Certificate) { c.Engine["guest"] = "def" }},
		{"another kind", hour, func(_ *testing.T, _ string, c *evidence.Certificate) { c.Kind.Runtime = "runsc" }},
		{"garbled", hour, edit(func(s string) string { return s[:len(s)/2] })},
		{"empty", hour, edit(func(string) string { return "" })},
		{"more after it", hour, edit(func(s string) string { return s + "{}" })},
		{"an unknown field", hour, edit(func(s string) string { return strings.Replace(s, "{", `{"trust": "me", `, 1) })},
		{"an attack left out", hour, rewrite(func(c *evidence.Certificate) { c.Attacks = c.Attacks[1:] })},
		{"an attack twice", hour, rewrite(func(c *evidence.Certificate) { c.Attacks[0] = c.Attacks[1] })},
		{"a result that there is not", hour, rewrite(func(c *evidence.Certificate) { c.Attacks[0].Result = "fine" })},
		{"allowed beforehand", hour, rewrite(func(c *evidence.Certificate) { c.Attacks[0].Allowed = true })},
		{"for another engine, moved here", hour, rewrite(func(c *evidence.Certificate) { c.Engine["id"] = "OTHER" })},
		{"huge", hour, edit(func(s string) string { return s + strings.Repeat(" ", maxFile) })},
		{"writable by others", hour, func(t *testing.T, path string, _ *evidence.Certificate) { must(t, os.Chmod(path, 0o622)) }},
		{"a link", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			must(t, os.Rename(path, path+".elsewhere"))
			must(t, os.Symlink(path+".elsewhere", path))
		}},
		{"in a directory that is a link", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			dir := filepath.Dir(path)
			must(t, os.Rename(dir, dir+".elsewhere"))
			must(t, os.Symlink(dir+".elsewhere", dir))
		}},
		{"below a directory that is a link", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			dir := filepath.Dir(filepath.Dir(path))
			must(t, os.Rename(dir, dir+".elsewhere"))
			must(t, os.Symlink(dir+".elsewhere", dir))
		}},
		{"in a directory that others can write to", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			must(t, os.Chmod(filepath.Dir(path), 0o777))
		}},
		{"below a directory that others can write to", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			must(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777))
		}},
		{"a directory", hour, func(t *testing.T, path string, _ *evidence.Certificate) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cache, c := kept(t)
			if test.change != nil {
				test.change(t, cache.path(c.Engine, c.Kind), &c)
			}
			if got, ok := cache.Find(c.Engine, c.Kind, c.At.Add(test.after)); ok {
				t.Errorf("taken: %+v", got)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func edit(change func(string) string) func(*testing.T, string, *evidence.Certificate) {
	return func(t *testing.T, path string, _ *evidence.Certificate) {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte(change(string(data))), 0o600))
	}
}

func rewrite(change func(*evidence.Certificate)) func(*testing.T, string, *evidence.Certificate) {
	return func(t *testing.T, path string, _ *evidence.Certificate) {
		c := sample()
		change(&c)
		data, err := json.Marshal(c)
		must(t, err)
		must(t, os.WriteFile(path, data, 0o600))
	}
}

// A cache that cannot be written to is said, and costs nothing else.
func TestCacheThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	cache, c := OpenCache(file), sample()
	if err := cache.Keep(c); err == nil {
		t.Error("kept below a file")
	}
	if _, ok := cache.Find(c.Engine, c.Kind, c.At); ok {
		t.Error("found below a file")
	}
}

// FuzzParse: whatever a file holds, parse takes it for a certificate only if it
// tells of every attack.
func FuzzParse(f *testing.F) {
	good, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"attacks":[{"name":"host-tcp"}]}`))
	f.Add([]byte(`{"at":"9999-12-31T23:59:59Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		for i, a := range probe.Attacks() {
			if c.Attacks[i].Name != a.Name {
				t.Errorf("attack %d is %q", i, c.Attacks[i].Name)
			}
		}
	})
}

func TestCheckNames(t *testing.T) {
	if err := CheckNames([]string{"host-tcp", "io-uring"}); err != nil {
		t.Error(err)
	}
	err := CheckNames([]string{"host_tpc"})
	if err == nil || !strings.Contains(err.Error(), `did you mean "host-tcp"?`) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkFind is what a run pays that finds its certificate.
func BenchmarkFind(b *testing.B) {
	cache, c := OpenCache(b.TempDir()), sample()
	if err := cache.Keep(c); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok := cache.Find(c.Engine, c.Kind, c.At); !ok {
			b.Fatal("not found")
		}
	}
}
