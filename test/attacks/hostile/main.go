// Command hostile is the hostile server, agent or grader's program of the attack suite. An
// argument names the attack. It limits itself, so that nothing breaks if a defense is
// missing.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// act is the behavior of the program in one attack. A part that is nil is honest.
type act struct {
	agent  func(context.Context) []part.Word
	tool   func(context.Context) []part.Word // called by the server's tool
	server func() error                      // replaces the server with the tool
	grader func(context.Context) []part.Word
}

// acts returns all attacks by name.
func acts() map[string]act {
	all := map[string]act{}
	for _, some := range []map[string]act{
		probingActs(),
		reachingActs(),
		namingActs(),
		kernelActs(),
		ourFileActs(),
		lingeringActs(),
		looseActs(),
		routingActs(),
		forgingActs(),
		takeoverActs(),
		slowActs(),
		guaranteeActs(),
		leakingActs(),
		modelActs(),
		leftoverActs(),
		unreadableActs(),
		bombActs(),
		usesUpActs(),
		sayingActs(),
		hugeActs(),
		checkActs(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// Values of the first argument; the second one names the attack.
const (
	stdioServer = "server"
	httpServer  = "serve" // on part.Port
	agent       = "agent"
	grader      = "grader"
)

// patience is the time limit of an attack.
const patience = 20 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == probe.Subcommand { // a listener, or a child of the probe
		return probe.Main(args[1:], os.Stdin, os.Stdout)
	}
	if len(args) > 1 && args[0] == linger {
		return lingerAs(args[1], args[2:])
	}
	if len(args) < 2 {
		return errors.New("usage: hostile server|serve|agent|grader|press ATTACK")
	}
	if args[0] == press {
		return pressFor(context.Background(), args[1])
	}
	a, known := acts()[args[1]]
	if !known && args[1] != part.Honest {
		return fmt.Errorf("there is no attack %q", args[1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch args[0] {
	case stdioServer, httpServer:
		if a.server != nil {
			return a.server()
		}
		return serve(args[0] == httpServer, a.tool)
	case agent:
		return a.asAgent(ctx)
	case grader:
		if a.grader != nil {
			fmt.Print(part.Say(a.grader(ctx)))
		}
		return nil
	}
	return fmt.Errorf("no part %q", args[0])
}

// asAgent runs the agent's part. If the server attacks too, it calls the tool at the same
// time.
func (a act) asAgent(ctx context.Context) error {
	if a.agent == nil {
		return ask(ctx)
	}
	var calling sync.WaitGroup
	if a.tool != nil {
		calling.Go(func() { _, _ = call(ctx, victim, "hello") }) // the tool reports the result
	}
	fmt.Print(part.Say(a.agent(ctx)))
	calling.Wait()
	return nil
}

// aims returns the targets of the attacker in a role.
func aims(role string) (probe.Aims, error) {
	text := os.Getenv(part.AimsEnv)
	if role == grader && len(os.Args) > 3 { // graders' programs do not get the environment
		text = os.Args[3]
	}
	a, err := part.Aims(text)
	a.Nonce = part.Nonce(a.Nonce, os.Args[2], role)
	return a, err
}
