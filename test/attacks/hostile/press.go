package main

import (
	"context"
	"fmt"
	"os"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// press is the subcommand of an attacker that runs next to measured trials. It repeatedly
// exhausts a resource in a child process, whose exit releases it, and prints a line each
// time.
const press = "press"

// presses returns the functions that exhaust a resource, by name. "burn" only uses
// processor time.
func presses() map[string]func() {
	return map[string]func(){
		"burn": func() {
			for i := 0; i < 1<<30; i++ {
			}
		},
		"users": func() {
			for _, s := range supplies() {
				_ = s.times(s.most)
			}
		},
		"connections": probe.FillConnections,
	}
}

// pressFor exhausts the named resource in child processes until ctx ends.
func pressFor(ctx context.Context, name string) error {
	take, known := presses()[name]
	if !known {
		return fmt.Errorf("there is nothing %q to take", name)
	}
	if len(os.Args) > 3 { // the child
		take()
		return nil
	}
	for round := 0; ctx.Err() == nil; round++ {
		child, err := os.StartProcess(self, []string{self, press, name, "child"}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return err
		}
		if _, err := child.Wait(); err != nil {
			return err
		}
		if round == 0 {
			fmt.Println("pressing")
		}
	}
	return nil
}
