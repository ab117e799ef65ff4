package containers

import (
	"strings"

	"github.com/waza-isolate/waza/sandbox"
)

var _ sandbox.Hinter = (*trialSandbox)(nil)

// Hint implements sandbox.Hinter: an image that counts on root gets none, which
// its own message seldom says.
func (s *trialSandbox) Hint(name string) string {
	b, ok := s.containers[name]
	planned := s.limits(name)
	if !ok || planned.Image == "" || planned.User != "" || !isRoot(b.image.user) || b.image.ours {
		return ""
	}
	names := "names no user"
	if b.image.user != "" {
		names = "names root as its user"
	}
	advice := "its image " + names + ", so it ran as a user without rights, on a read-only root file system"
	if name == sandbox.Agent {
		return advice + "; if that is the reason, set config.isolation.agent.user to the user it is made for"
	}
	if program := dropsRoot(b.image); program != "" {
		advice += "; its entrypoint " + program + " is made to begin as root"
	}
	return advice + "; if that is the reason, set user to the user it is made for, writable to the directories it writes to, and, where its entrypoint insists on root, command to the program itself"
}

// limits is a container of the trial as planned.
func (s *trialSandbox) limits(name string) sandbox.Container {
	if name == sandbox.Agent {
		return s.trial.Agent.Container
	}
	for _, server := range s.trial.Servers {
		if server.Name == name {
			return server.Container
		}
		for _, service := range server.Services {
			if sandbox.ServiceName(server.Name, service.Name) == name {
				return service.Container
			}
		}
	}
	return sandbox.Container{}
}

// dropsRoot is the program in an image's entrypoint that begins as root and gives
// it up, where one can be told by its name.
func dropsRoot(i imageInfo) string {
	for _, word := range append(i.entrypoint[:len(i.entrypoint):len(i.entrypoint)], i.cmd...) {
		switch base := word[strings.LastIndexByte(word, '/')+1:]; base {
		case "gosu", "su-exec", "setpriv", "runuser", "su", "init", "s6-svscan", "s6-overlay-suexec":
			if base != "init" || word == "/init" {
				return word
			}
		}
	}
	return ""
}
