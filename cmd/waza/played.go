package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waza-isolate/waza/runner/cmdmock"
)

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
	return answer, json.NewDecoder(io.LimitReader(resp.Body, cmdmock.MaxAnswer)).Decode(&answer)
}
