package main

import (
	"context"
	"fmt"
	"os"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// press is the part that an attacker plays beside trials that are measured: it takes all
// that it can, over and over until it is ended, each time in a process whose end gives it
// back. It prints a line once it has had all of it.
const press = "press"

// presses returns what is taken, by name. Burn takes the processor alone.
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

// pressFor has a child of ours take what is named until ctx ends.
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
