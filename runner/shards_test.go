package runner

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/runner/trial"
)

// A runner of a shard, taken over, writes nothing but its own tasks' trials and its own record.
func TestUploadsAreConfined(t *testing.T) {
	j := &Job{Dir: filepath.Join(t.TempDir(), "run"), Request: Request{Shards: 2}}
	j.Tasks = []eval.ResolvedTask{{}, {}}
	j.Tasks[0].ID, j.Tasks[1].ID = "a", "b"
	for name, well := range map[string]bool{
		"trials/a/1/trial.json": true, "trials/a/1/servers/x/stderr": true, "shards/1/run.json": true, "shards/1/progress.jsonl": true,
		"trials/b/1/trial.json": false, "shards/2/run.json": false, "run.json": false, "results.json": false, "report.html": false,
		"trials/a": false, "trials/a/1/../../b/1/trial.json": false, "../escaped": false, "/escaped": false, "trials/a/../../../escaped": false,
	} {
		if err := os.MkdirAll(j.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var upload bytes.Buffer
		w := tar.NewWriter(&upload)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if err := TakeUpload(j, 1, &upload); (err == nil) != well {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(j.Dir, "..", "escaped")); err == nil {
			t.Errorf("%s got out", name)
		}
	}
	// A link in a task's directory leads nowhere.
	var upload bytes.Buffer
	w := tar.NewWriter(&upload)
	for _, h := range []tar.Header{
		{Name: "trials/a/2/link", Typeflag: tar.TypeSymlink, Linkname: t.TempDir()},
		{Name: "trials/a/2/link/escaped", Typeflag: tar.TypeReg, Mode: 0o644},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	if err := TakeUpload(j, 1, &upload); err == nil {
		t.Error("a link is followed")
	}
	if _, err := gatherShards(j, Record{}); err == nil {
		t.Error("a run directory with a link is taken")
	}
}

// What an upload sends, and sends again because it changed, arrives as it is.
func TestUpload(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var sent bytes.Buffer
	u, err := NewUpload(from, 1, &sent)
	if err != nil {
		t.Fatal(err)
	}
	write(RunFile, "begun")
	u.Record()
	write("trials/a/1/trial.json", "{}")
	write("trials/a/1/verdicts.json", "old")
	u.Trial("a", 1)
	write("trials/a/1/verdicts.json", "newer")
	write(RunFile, "ended.")
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(sent.Bytes())); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if want := []string{"shards/1/run.json", "trials/a/1/verdicts.json", "trials/a/1/trial.json", "trials/a/1/verdicts.json", "shards/1/run.json"}; !slices.Equal(names, want) {
		t.Errorf("sent %q", names)
	}
	j := &Job{Dir: to, Request: Request{Shards: 1}, Tasks: []eval.ResolvedTask{{}}}
	j.Tasks[0].ID = "a"
	if err := TakeUpload(j, 1, &sent); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"trials/a/1/verdicts.json": "newer", "trials/a/1/trial.json": "{}", "shards/1/run.json": "ended."} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What runners of shards cannot have is refused with one sentence, before any starts.
func TestParcelIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ server, inputs, says string }{
		"git repository":      {`{image: i, command: c}`, `, repos: [{source: "https://git.example.org/r", dest: r, commit: 0123456789012345678901234567890123456789}]`, "task x has a git repository, which runners of shards cannot fetch"},
		"build":               {`{build: src, command: c}`, "", `server "s" is built from a directory, which runners of shards do not have`},
		"package on a build":  {`{build: src, command: npx, args: [p@1.0.0]}`, "", `server "s" is built from a directory, which runners of shards do not have`},
		"secret of a command": {`{image: i, command: c, secrets: {K: {command: [touch, ran]}}}`, "", `server "s" has a secret of a command, which runners of shards cannot run`},
		"absolute secret":     {`{image: i, command: c, secrets: {K: {file: /etc/key}}}`, "", `server "s" has its secret in /etc/key, which runners of shards do not have`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for file, text := range map[string]string{
				"src/Dockerfile": "FROM scratch\n",
				"eval.yaml":      "name: e\nconfig: {executor: script, mcp_servers: {s: " + test.server + "}}\ntasks: [task.yaml]\n",
				"task.yaml":      "{id: x, inputs: {prompt: p" + test.inputs + "}, script: [{say: a}]}\n",
			} {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			j, err := Load(t.Context(), Request{
				Eval: "eval.yaml", Choices: Choices{Isolated: true, On: eval.OnKubernetes}, Shards: 1, Start: dir,
				Host: Host{
					Lookup: func(string) (string, bool) { return "", false }, CheckScript: func(*strictyaml.Document, ...any) {},
					Notice: func([]*strictyaml.Error) {}, Host: trial.Host{Secrets: &redact.Set{}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = runShards(t.Context(), j)
			if _, ok := errors.AsType[Mistake](err); !ok || !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			if _, err := os.Stat("ran"); err == nil {
				t.Error("the secret's command ran")
			}
		})
	}
}

// An attack that got out of the sandboxes of one shard, on its node, got out in the run.
func TestShardsCertificates(t *testing.T) {
	t.Parallel()
	of := func(vsock, memory evidence.AttackResult) Record {
		return Record{Certificate: &evidence.Certificate{Attacks: []evidence.Attack{
			{Name: "vsock", Result: vsock, Allowed: vsock == evidence.AttackGotOut}, {Name: "memory-tcp", Result: memory, Allowed: memory == evidence.AttackGotOut},
		}}}
	}
	one, other := of(evidence.AttackGotOut, evidence.AttackHeld), of(evidence.AttackHeld, evidence.AttackGotOut)
	if key, err := differingKey(one, other); key != "" || err != nil {
		t.Errorf("%q differs, %v", key, err)
	}
	var merged Record
	for _, shard := range []Record{one, other, {}} {
		if err := addShard(&merged, "shard", shard); err != nil {
			t.Fatal(err)
		}
	}
	if weak := merged.Weak(); !slices.Equal(weak, []string{"vsock", "memory-tcp"}) || len(one.Weak()) != 1 {
		t.Errorf("weak are %q, and of the first shard %q", weak, one.Weak())
	}
}
