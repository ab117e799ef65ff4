package mcpconfig_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestValidateSecrets(t *testing.T) {
	with := func(secrets map[string]mcpconfig.Secret) mcpconfig.Server {
		return mcpconfig.Server{Image: "i", Env: map[string]string{"PLAIN": "x"}, Secrets: secrets}
	}
	one := func(s mcpconfig.Secret) mcpconfig.Server { return with(map[string]mcpconfig.Secret{"TOKEN": s}) }
	for name, test := range map[string]struct {
		in   mcpconfig.Server
		want string // in the error; empty: valid
	}{
		"a variable":           {one(mcpconfig.Secret{Env: "GITHUB_TOKEN"}), ""},
		"a file":               {one(mcpconfig.Secret{File: "../token"}), ""},
		"a command":            {one(mcpconfig.Secret{Command: []string{"gh", "auth", "token"}}), ""},
		"nothing":              {one(mcpconfig.Secret{}), "secrets.TOKEN must say where its value comes from: give one of env, file and command"},
		"two":                  {one(mcpconfig.Secret{Env: "A", File: "b"}), "give one of env, file and command"},
		"no variable's name":   {with(map[string]mcpconfig.Secret{"A-B": {Env: "A"}}), `secrets: "A-B" is not a variable's name`},
		"a variable in braces": {one(mcpconfig.Secret{Env: "${TOKEN}"}), "secrets.TOKEN.env is the name of a variable, without ${}"},
		"a variable in a path": {one(mcpconfig.Secret{File: "${HOME}/token"}), "secrets.TOKEN: variables are not expanded in secrets"},
		"an empty program":     {one(mcpconfig.Secret{Command: []string{""}}), "secrets.TOKEN.command[0] must not be empty"},
		"NUL":                  {one(mcpconfig.Secret{File: "a\x00"}), "secrets.TOKEN must not hold a NUL"},
		"in env too":           {with(map[string]mcpconfig.Secret{"PLAIN": {Env: "A"}}), "secrets.PLAIN is in env too; give the variable in one of them"},
		"remote": {mcpconfig.Server{URL: "http://h", Secrets: map[string]mcpconfig.Secret{"A": {Env: "A"}}},
			"secrets cannot be used with url"},
	} {
		err := mcpconfig.Validate("s", test.in)
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || test.want == "" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// A variable that docker run passes on is a secret of the server if it is one in the eval.
func TestSecretsOfDockerRun(t *testing.T) {
	in := mcpconfig.Server{
		Command: "docker", Args: []string{"run", "-i", "--rm", "-e", "TOKEN", "-e", "OTHER=x", "img"},
		Secrets: map[string]mcpconfig.Secret{"TOKEN": {Env: "GITHUB_TOKEN"}},
	}
	got, err := mcpconfig.FromDockerRun("s", in)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := got.Env["TOKEN"]; there || got.Env["OTHER"] != "x" || got.Secrets["TOKEN"].Env != "GITHUB_TOKEN" {
		t.Errorf("%+v", got)
	}
	if err := mcpconfig.Validate("s", got); err != nil {
		t.Error(err)
	}
	in.Args[4] = "TOKEN=given"
	if got, err = mcpconfig.FromDockerRun("s", in); err != nil {
		t.Fatal(err)
	}
	if err := mcpconfig.Validate("s", got); err == nil || !strings.Contains(err.Error(), "secrets.TOKEN is in env too") {
		t.Errorf("given in both: %v", err)
	}
}

// A client's file can name variables, and neither files nor commands.
func TestSecretsOfClients(t *testing.T) {
	read := func(source string) error {
		_, err := mcpconfig.ReadClient("mcp.json", []byte(`{"mcpServers": {"it": {"command": "x", "secrets": {"TOKEN": `+source+`}}}}`))
		return err
	}
	if err := read(`{"env": "GITHUB_TOKEN"}`); err != nil {
		t.Error(err)
	}
	for _, source := range []string{`{"file": "/home/me/.ssh/id_rsa"}`, `{"command": ["cat", "x"]}`} {
		if err := read(source); err == nil || !strings.Contains(err.Error(), "secrets of a client's file come from variables alone") {
			t.Errorf("%s: %v", source, err)
		}
	}
	if err := read(`{"enf": "x"}`); err == nil || !strings.Contains(err.Error(), "env") {
		t.Errorf("an unknown key: %v", err)
	}
}
