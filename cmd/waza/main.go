// Command waza runs agent evaluations, each trial in a sandbox of its own.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// version is set by the build; see Makefile.
var version = ""

func main() {
	if playsCommand(os.Args, os.LookupEnv) { // a program of an eval's command_mocks, in the agent's container
		os.Exit(playCommand(os.Args, os.Environ(), os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guest": // process 1 of a container
			exitOn(guest.Main(os.Args[2:]))
			return
		case "agent": // an agent of ours, in the agent's container
			exitOn(agentMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
			return
		case probe.Subcommand: // what tries to get out of a container, for a run's certificate
			exitOn(probe.Main(os.Args[2:], os.Stdin, os.Stdout))
			return
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	s := &state{
		args: os.Args, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		lookup: os.LookupEnv, version: buildVersion(), digest: files.DigestOnce(),
	}
	os.Exit(s.main(context.Background()))
}

// garbage is our GOGC. A hostile peer can make the runner hold a bounded amount of memory,
// and Go's default of 100 would let the heap grow to twice that.
const garbage = 50

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// agentMain runs one of our own agents inside the agent's container.
func agentMain(args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: waza agent NAME; it is started by waza run")
	}
	var in agents.Input
	input := json.NewDecoder(stdin)
	if err := input.Decode(&in); err != nil {
		return fmt.Errorf("agent input: %w", err)
	}
	stdout = in.Talk(input, stdout)
	transcript, err := os.OpenFile(in.Transcript, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transcript.Close()) }()
	return agents.Run(context.Background(), args[0], in, stdout, stderr, transcript)
}

// playTimeout bounds a question to the runner of a program that is played.
const playTimeout = time.Minute

// playsCommand says whether the process is a program that is played, by the name it was started under.
func playsCommand(args []string, lookup func(string) (string, bool)) bool {
	_, set := lookup(cmdmock.Variable)
	own, err := os.Executable() // behind all links
	return set && err == nil && len(args) > 0 && filepath.Base(args[0]) != filepath.Base(own)
}

// playCommand plays the program, and returns the exit code.
func playCommand(args, env []string, stdout, stderr io.Writer) int {
	answer, err := askPlayed(args, env)
	if err == nil {
		_, err = stdout.Write(answer.Stdout)
	}
	if err == nil {
		_, err = io.WriteString(stderr, answer.Stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "waza: the mock of %s: %v\n", filepath.Base(args[0]), err)
		return cmdmock.ExitUnmatched
	}
	return answer.ExitCode
}

func askPlayed(args, env []string) (answer cmdmock.Answer, err error) {
	in := cmdmock.Invocation{Command: filepath.Base(args[0]), Args: append([]string{}, args[1:]...), Env: map[string]string{}}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		in.Env[name] = value
	}
	if in.Dir, err = os.Getwd(); err != nil {
		return answer, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return answer, err
	}
	client := &http.Client{Timeout: playTimeout, Transport: &http.Transport{DisableKeepAlives: true}} // by no proxy
	resp, err := client.Post(in.Env[cmdmock.Variable], "application/json", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return answer, errors.New(strings.TrimSpace(string(said)))
	}
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}
