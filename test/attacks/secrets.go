package attacks

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// leakingAttacks returns the attacks on secrets and on egress policies.
func leakingAttacks() []Attack {
	holds := func(_ Ground, t *eval.Task) {
		if t.MCPServers == nil {
			t.MCPServers = map[string]*mcpconfig.Server{evil: {}}
		}
		t.MCPServers[evil].Secrets = map[string]mcpconfig.Secret{part.Token: {Env: part.SecretEnv}}
	}
	return []Attack{
		{
			Attack: entry("secret-spread", "have a server's secret stored in the run: from a result, in pieces on stderr, from the agent and the workspace, in five encodings", probe.SecretsStay, redaction),
			As:     Both, Won: written, Tried: HasReport, Task: holds,
		},
		{
			Attack: entry("secret-elsewhere", "find a server's secret in the agent's container", probe.SecretsStay, probe.EmptyEnvironment),
			As:     Agent, Won: SaidSo, Tried: HasReport, Task: holds,
		},
		{
			Attack: entry("egress-elsewhere", "reach the host through the egress proxy of another host that its eval allows", probe.ByPolicy, egressPolicy),
			As:     Server, Tried: HasReport,
			Task: func(_ Ground, t *eval.Task) {
				t.MCPServers[evil].Egress = []mcpconfig.Egress{{Host: "api.example:443"}}
			},
			Won: func(s Scene) (bool, string) {
				if won, detail := s.Arrived(); won {
					return won, detail
				}
				_, detail := SaidSo(s)
				return false, detail
			},
		},
	}
}

// written reports whether the secret of the run is in any file of the run directory, or was
// printed.
func written(s Scene) (bool, string) {
	forms := formsOf(part.Secret(s.Run.ID))
	has := func(text string) bool {
		for _, form := range forms {
			if strings.Contains(text, form) {
				return true
			}
		}
		return false
	}
	if has(s.Run.Output) {
		return true, "it was printed"
	}
	found, files := "", 0
	err := filepath.WalkDir(s.Run.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if found == "" && has(string(data)) {
			found = "it is in " + path
		}
		return err
	})
	if err != nil || files == 0 {
		return true, "the run's directory could not be read"
	}
	return found != "", found
}

// formsOf returns the encodings in which a secret must be redacted.
func formsOf(secret string) []string {
	quoted, _ := json.Marshal(secret) // of a string
	return []string{
		secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), hex.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)),
	}
}
