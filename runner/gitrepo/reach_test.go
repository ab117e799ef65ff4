package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutside has a repository of a stranger's lead to one of the user's. In each case git itself reads the
// latter's file.
func TestOutside(t *testing.T) {
	t.Parallel()
	user := newRepo(t)
	git := filepath.Join(user.dir, ".git")
	head := user.git("rev-parse", "HEAD")
	remove := func(r repo, name string) {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		set    func(stranger repo)
		source string // in the stranger's directory
		fails  bool   // git does not read it
	}{
		"itself": {func(r repo) { r.git("init", "--quiet", "s") }, "../" + filepath.Base(user.dir), true},
		".git":   {func(r repo) { r.write("s/.git", "gitdir: "+git+"\n") }, "s", false},
		".git by a path that git resolves": {func(r repo) {
			link(t, filepath.Join(r.dir, "l"), user.dir)
			r.write("s/.git", "gitdir: "+r.dir+"/l/../"+filepath.Base(user.dir)+"/.git")
		}, "s", false},
		"a file":            {func(r repo) { r.write("notes", "gitdir: "+git) }, "notes", false},
		"a name without it": {func(r repo) { r.write("s/x", ""); r.write("s.git", "gitdir: "+git) }, "s", false},
		"a link":            {func(r repo) { r.write("s/x", ""); link(t, filepath.Join(r.dir, "s/.git"), git) }, "s", false},
		"commondir": {func(r repo) {
			r.write("s/.git/HEAD", head)
			r.write("s/.git/commondir", git)
		}, "s", false},
		"two steps": {func(r repo) {
			r.write("s/.git", "gitdir: ../t\n")
			r.write("t/HEAD", head)
			r.write("t/commondir", "../u\n")
			r.git("clone", "--quiet", "--bare", user.dir, "u")
			remove(r, "u/objects")
			link(t, filepath.Join(r.dir, "u/objects"), git+"/objects")
		}, "s", false},
		"without a worktree": {func(r repo) {
			r.git("clone", "--quiet", "--bare", "--shared", user.dir, "s")
		}, "s", false},
		"alternates": {func(r repo) { r.git("clone", "--quiet", "--shared", user.dir, "s") }, "s", false},
		"quoted alternates": {func(r repo) {
			r.git("clone", "--quiet", "--shared", user.dir, "s")
			r.write("s/.git/objects/info/alternates", `"`+git+`/objects"x`+"\n")
		}, "s", false},
		"alternates of alternates": {func(r repo) {
			r.git("clone", "--quiet", "--shared", user.dir, "t")
			r.git("clone", "--quiet", "--shared", "t", "s")
			r.write("s/.git/objects/info/alternates", "../../../t/.git/objects")
		}, "s", false},
		"linked packs": {func(r repo) {
			r.git("clone", "--quiet", "--no-local", user.dir, "s")
			remove(r, "s/.git/objects/pack")
			user.git("repack", "--quiet", "-a")
			link(t, filepath.Join(r.dir, "s/.git/objects/pack"), git+"/objects/pack")
		}, "s", false},
	} {
		stranger := repo{t, t.TempDir()}
		test.set(stranger)
		source := filepath.Join(stranger.dir, test.source)
		if !test.fails {
			if tree, err := Fetch(t.Context(), Source{Path: source}); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if content, _ := filesOf(t, tree); content["file"] != "second" {
				t.Errorf("%s: git reads %q", name, content)
			}
		}
		outside := func(path string) bool { return !strings.HasPrefix(path, stranger.dir+"/") && path != stranger.dir }
		if got := Outside(source, outside); got == "" || !strings.HasPrefix(got, user.dir) && name != "quoted alternates" {
			t.Errorf("%s: Outside returns %q", name, got)
		}
	}
	fine := newRepo(t)
	fine.git("worktree", "add", "--quiet", "linked")
	fine.git("clone", "--quiet", "--bare", ".", "bare")
	fine.git("bundle", "create", "bundle", "main")
	for _, source := range []string{".", "linked", "bare", "bundle", "nowhere", ".git/hooks"} {
		if got := Outside(filepath.Join(fine.dir, source), func(path string) bool { return !strings.HasPrefix(path, fine.dir) }); got != "" {
			t.Errorf("%s leads to %q", source, got)
		}
	}
	if got := Outside(filepath.Join(fine.dir, ".git/hooks"), func(path string) bool { return path == fine.dir }); got != fine.dir {
		t.Errorf("a repository around the source: %q", got)
	}
}

// FuzzOutside has files of a stranger's that say where the rest of a repository is.
func FuzzOutside(f *testing.F) {
	for _, content := range []string{"gitdir: ..\n", "..", "/", "\"/x\"\n#\n../../..", "gitdir: \x00/../t"} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		for i, name := range []string{"a/.git", "b/HEAD", "b/commondir", "b/objects/info/alternates"} {
			repo{t, dir}.write(name, content)
			Outside(filepath.Join(dir, []string{"a", "b"}[min(i, 1)]), func(path string) bool { return !strings.HasPrefix(path, dir) })
		}
	})
}
