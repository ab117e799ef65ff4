package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// checkActs returns the acts of graders' programs that want an undeserved verdict.
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

// claim prints a passing verdict in several formats of waza, and fails.
func claim(context.Context) []part.Word {
	fmt.Println(`{"class":"pass","verdicts":[{"name":"claims","type":"program","result":"pass","score":1}]}`)
	fmt.Println(`{"name":"claims","result":"pass","passed":true,"score":1,"exit_code":0}`)
	fmt.Println("All 1 checks passed.")
	_ = os.WriteFile(filepath.Join(workspace, "verdicts.json"), []byte(`{"class":"pass"}`), 0o644)
	os.Exit(1)
	return nil
}

// planted returns places that a later grader's program may see.
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

// find is an honest program that passes if it sees a planted file.
func find(context.Context) []part.Word {
	for _, name := range planted() {
		if _, err := os.Lstat(name); err == nil {
			return nil
		}
	}
	os.Exit(1)
	return nil
}

// eat exits with 0 after exceeding its memory limit.
func eat(context.Context) []part.Word {
	inChild(part.Mapped, "grader-eats-memory")
	return nil
}

// leave exits with 0 and leaves a process that holds its output open.
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
