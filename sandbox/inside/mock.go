package inside

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

	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// mockTimeout bounds how long a mocked command waits for the runner. The answer itself may take
// as long as the mock says.
const mockTimeout = time.Minute

// isMock reports whether this process runs as a mocked command: it has another name than
// the executable, and the variable with the runner's address is set.
func isMock(args []string, lookup func(string) (string, bool)) bool {
	_, set := lookup(cmdmock.Variable)
	own, err := os.Executable() // with symbolic links resolved
	return set && err == nil && len(args) > 0 && filepath.Base(args[0]) != filepath.Base(own)
}

// mock prints the mocked command's answer and returns its exit code.
func mock(args, env []string, stdout, stderr io.Writer) int {
	answer, err := askRunner(args, env)
	if err == nil {
		_, err = stdout.Write(answer.Output())
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

// askRunner requests the answer from the runner.
func askRunner(args, env []string) (answer cmdmock.Answer, err error) {
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
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: mockTimeout}} // without a proxy
	resp, err := client.Post(in.Env[cmdmock.Variable], "application/json", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return answer, errors.New(strings.TrimSpace(string(message)))
	}
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}
