package runner

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
)

func variables(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := env[name]; return value, ok }
}

func withSecrets(secrets map[string]mcpconfig.Secret) []*plan.Trial {
	return []*plan.Trial{{Servers: []plan.Server{{Name: "it", Config: mcpconfig.Server{Secrets: secrets}}, {Name: "other"}}}}
}

// A secret from a file or a command is its content without one trailing line break. One from
// a variable is taken unchanged.
func TestOpenVault(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "from a file\n\n")
	write("dos", "from DOS\r\n")
	secrets := &secret.Set{}
	trials := withSecrets(map[string]mcpconfig.Secret{
		"A": {Env: "TOKEN"}, "B": {File: "token"}, "C": {File: filepath.Join(dir, "dos")},
		"D": {Command: []string{"sh", "-c", "pwd; echo asked >> asked"}}, "E": {Command: []string{"sh", "-c", "pwd; echo asked >> asked"}},
	})
	trials = append(trials, trials[0])
	vault, err := openVault(t.Context(), trials, dir, variables(map[string]string{"TOKEN": "from a variable\n"}), secrets)
	if err != nil {
		t.Fatal(err)
	}
	vault.Give(trials)
	want := map[string]string{"A": "from a variable\n", "B": "from a file\n", "C": "from DOS", "D": dir, "E": dir}
	if got := trials[0].Servers[0].Expanded.Env; !maps.Equal(got, want) {
		t.Errorf("given %q, want %q", got, want)
	}
	if got := trials[0].Servers[1].Expanded.Env; len(got) > 0 {
		t.Errorf("another server got %q", got)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || string(asked) != "asked\n" {
		t.Errorf("the command was run as often as %q says, %v", asked, err)
	}
	if _, found := secrets.Bytes([]byte("from a file\n")); found.Secrets["it/B"] != 1 {
		t.Errorf("known are %+v", found)
	}
	if plan := string(trials[0].JSON()) + trials[0].String(); strings.Contains(plan, "from a") || strings.Contains(plan, "from DOS") {
		t.Errorf("the plan has a value: %s", plan)
	}
}

// What cannot be had is one sentence, and no value is in it.
func TestVaultFails(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "empty"), []byte("\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "short"), []byte("abc\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "huge"), make([]byte, maxSecret+1), 0o600),
		os.WriteFile(filepath.Join(dir, "NUL"), []byte("abcd\x00efgh"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) mcpconfig.Secret { return mcpconfig.Secret{Command: []string{"sh", "-c", script}} }
	for want, source := range map[string]mcpconfig.Secret{
		"the variable UNSET is not set":                        {Env: "UNSET"},
		"the variable EMPTY is empty":                          {Env: "EMPTY"},
		"the file missing: no such file or directory":          {File: "missing"},
		"the file pipe: is not a regular file":                 {File: "pipe"},
		"the file .: is a directory":                           {File: "."},
		"the file empty is empty":                              {File: "empty"},
		"the file short has fewer than 4 bytes":                {File: "short"},
		"the file huge: has more than 65536 bytes":             {File: "huge"},
		"the file NUL holds a NUL":                             {File: "NUL"},
		`prints: exit status 3, and said "log in first"`:       sh("echo log in first >&2; echo half-a-secret; exit 3"),
		`prints: exit status 1`:                                sh("echo half-a-secret; exit 1"),
		"prints: has more than 65536 bytes":                    sh("yes | head -c 200000"),
		`prints is empty`:                                      sh("true"),
		`prints: exec: "no-such-program": executable file not`: {Command: []string{"no-such-program"}},
	} {
		_, err := openVault(t.Context(), withSecrets(map[string]mcpconfig.Secret{"A": source}), dir, variables(map[string]string{"EMPTY": ""}), &secret.Set{})
		if err == nil || !strings.HasPrefix(err.Error(), `server "it": secrets.A: `) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			continue
		}
		if strings.Contains(err.Error(), "half-a-secret\n") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	}
}

// An interrupt ends a command, and what it started.
func TestVaultIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		slow := mcpconfig.Secret{Command: []string{"sh", "-c", "sh -c 'exec 3>alive; echo up >&3; sleep 1000' & wait"}}
		_, err := openVault(ctx, withSecrets(map[string]mcpconfig.Secret{"A": slow}), dir, variables(nil), &secret.Set{})
		ended <- err
	}()
	alive, err := os.Open(pipe) // until its writer is there
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	up := make([]byte, 3)
	if _, err := alive.Read(up); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n, err := alive.Read(up); n > 0 || err == nil { // the end of file comes with the writer's end
		t.Errorf("%d bytes, %v", n, err)
	}
}
