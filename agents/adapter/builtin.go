package adapter

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/images"
)

//go:embed *.yaml lock.json
var embedded embed.FS

// Meant is the executor that a name stands for: its own, but for other names of one.
func Meant(executor string) string {
	if executor == "copilot-sdk" {
		return "copilot"
	}
	return executor
}

// Names are the agents that come with waza, in alphabetical order.
func Names() []string {
	entries, _ := embedded.ReadDir(".") // embedded, or it does not compile
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Builtin is the agent that comes with waza under the name of an executor. ok is
// false where none does.
func Builtin(executor string) (a *Adapter, ok bool) {
	executor = Meant(executor)
	if !slices.Contains(Names(), executor) {
		return nil, false
	}
	file := executor + ".yaml"
	data, err := embedded.ReadFile(file)
	if err == nil {
		a, err = Parse(file, data)
	}
	if err != nil { // a test reads them all
		panic(fmt.Sprintf("adapter: %v", err))
	}
	return a, true
}

// Lock is what the packages of the agents that come with waza were resolved to.
var Lock = sync.OnceValue(func() *images.Lock {
	data, err := embedded.ReadFile(LockFile)
	if err == nil {
		var lock *images.Lock
		if lock, err = images.ParseLock(data); err == nil {
			return lock
		}
	}
	panic(fmt.Sprintf("adapter: %s %v", LockFile, err)) // a test reads it
})

// LockFile is the file that Lock is read from.
const LockFile = "lock.json"

//go:generate go run ./lock ../../bin/waza

// Build is the image that is built for the agent, with what lock has of its packages;
// nil where its image is not built.
func (a *Adapter) Build(bases images.Bases, lock *images.Lock) (*images.Image, error) {
	p, err := a.Package()
	if err != nil || len(p.Wanted) == 0 {
		return nil, err
	}
	i := images.ForAgent(images.Agent{Name: a.Name, Setup: a.Setup}, p, bases, lock)
	return &i, nil
}
