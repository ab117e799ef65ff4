package mcpconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Secret is where a variable of a server's environment comes from that nothing else may
// see: exactly one of Env, File and Command. Variables (${VAR}) are not expanded in it.
type Secret struct {
	Env     string   `json:"env,omitempty" jsonschema:"variable of the runner's environment"`
	File    string   `json:"file,omitempty" jsonschema:"path of a file, from the eval's directory"`
	Command []string `json:"command,omitempty" jsonschema:"program and arguments that the runner runs once a run, on this machine and in the eval's directory; what it prints is the value"`
}

// String says where the value comes from.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "the variable " + s.Env
	case s.File != "":
		return "the file " + s.File
	}
	return fmt.Sprintf("what the command %q prints", s.Command)
}

// secrets holds that each secret of s has a name of its own and one source.
func (f *findings) secrets(s Server) {
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		at := where("secrets", name)
		wrong := func(format string, args ...any) { f.add(ErrInvalid, "secrets", name, format, args...) }
		secret := s.Secrets[name]
		if !IsVariable(name) {
			wrong("secrets: %q is not a variable's name", name)
			continue
		}
		if _, both := s.Env[name]; both {
			wrong("%s is in env too; give the variable in one of them", at)
		}
		given := 0
		for _, set := range []bool{secret.Env != "", secret.File != "", len(secret.Command) > 0} {
			if set {
				given++
			}
		}
		switch {
		case given != 1:
			wrong("%s must say where its value comes from: give one of env, file and command", at)
		case secret.Env != "" && !IsVariable(secret.Env):
			wrong("%s.env is the name of a variable, without ${}", at)
		case hasVariable(secret.File) || slices.ContainsFunc(secret.Command, hasVariable):
			wrong("%s: variables are not expanded in secrets; write it out", at)
		case strings.ContainsRune(secret.File, 0) || slices.ContainsFunc(secret.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
			wrong("%s must not hold a NUL character", at)
		case given == 1 && len(secret.Command) > 0 && secret.Command[0] == "":
			wrong("%s.command[0] must not be empty", at)
		}
	}
}

// copySecrets is secrets that can be changed without changing the original.
func copySecrets(secrets map[string]Secret) map[string]Secret {
	secrets = maps.Clone(secrets)
	for name, secret := range secrets {
		secret.Command = slices.Clone(secret.Command)
		secrets[name] = secret
	}
	return secrets
}
