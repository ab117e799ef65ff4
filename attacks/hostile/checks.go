package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waza-isolate/waza/attacks/part"
)

// checkActs returns graders' programs that want a verdict which they do not deserve.
func checkActs() map[string]act {
	return map[string]act{
		"grader-claims-pass":     {grader: claim},
		"grader-plants":          {grader: plant},
		part.Finds:               {grader: find},
		"grader-eats-memory":     {grader: eat},
		"grader-leaves-programs": {grader: leave},
		part.Lingers:             {agent: wait},
	}
}

// claim says in every shape of waza's that all is well, and fails.
func claim(context.Context) []part.Word {
	fmt.Println(`{"class":"pass","verdicts":[{"name":"claims","type":"program","result":"pass","score":1}]}`)
	fmt.Println(`{"name":"claims","result":"pass","passed":true,"score":1,"exit_code":0}`)
	fmt.Println("All 1 checks passed.")
	_ = os.WriteFile(filepath.Join(workspace, "verdicts.json"), []byte(`{"class":"pass"}`), 0o644)
	os.Exit(1)
	return nil
}

// planted returns places that a later grader's program might see.
func planted() []string {
	return []string{
		filepath.Join(workspace, part.Planted), "/tmp/" + part.Planted, "/home/agent/" + part.Planted,
		"/home/agent/grader/" + part.Planted, "/dev/shm/" + part.Planted,
	}
}

func plant(context.Context) []part.Word {
	for _, name := range planted() {
		_ = os.WriteFile(name, []byte("pass"), 0o644)
	}
	return nil
}

// find returns an honest program, which passes where it sees what another planted.
func find(context.Context) []part.Word {
	for _, name := range planted() {
		if _, err := os.Lstat(name); err == nil {
			return nil
		}
	}
	os.Exit(1)
	return nil
}

// eat exits with 0, whatever its limit of memory did to it.
func eat(context.Context) []part.Word {
	inChild(part.Mapped, "grader-eats-memory")
	return nil
}

// leave exits with 0 and leaves a program behind that holds its output open.
func leave(context.Context) []part.Word {
	_, _ = os.StartProcess(self, []string{self, agent, part.Lingers}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return nil
}

func wait(ctx context.Context) []part.Word {
	<-ctx.Done()
	return nil
}
