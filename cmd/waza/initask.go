package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/text"
)

// asker asks the user questions on a terminal.
type asker struct {
	*state
	in *bufio.Scanner
}

// newAsker returns an asker, or nil if stdin or stderr is not a terminal.
func newAsker(s *state) *asker {
	if _, ok := terminalOf(s.stderr); !ok {
		return nil
	}
	file, ok := s.stdin.(*os.File)
	if !ok {
		return nil
	}
	if _, ok := terminalOf(file); !ok {
		return nil
	}
	return &asker{s, bufio.NewScanner(file)}
}

// ask returns the answer to a question, or fallback if the answer is empty.
func (a *asker) ask(question, fallback string) (string, error) {
	if fallback != "" {
		question += " [" + text.Inert(fallback) + "]"
	}
	fmt.Fprint(a.stderr, question+": ")
	if !a.in.Scan() {
		fmt.Fprintln(a.stderr)
		return "", usage("there is no answer; use flags instead, see waza init --help")
	}
	if answer := strings.TrimSpace(a.in.Text()); answer != "" {
		return answer, nil
	}
	return fallback, nil
}

// ask asks for values that the command line does not specify.
func (b *newEval) ask(a *asker, c *cli.Command) error {
	if err := b.checkNew(); err != nil { // before asking questions
		return err
	}
	if err := b.askServer(a); err != nil {
		return err
	}
	if !c.IsSet("name") {
		name, err := a.ask("name of the eval", b.name)
		if err != nil {
			return err
		}
		b.name = name
	}
	for !c.IsSet("executor") {
		executor, err := a.ask("agent: script, which needs no key, or claude, codex, copilot, gemini, opencode, llm", b.executor)
		if err != nil {
			return err
		}
		if err := eval.CheckExecutor(executor); err != nil {
			b.printError(err)
			continue
		}
		b.executor = executor
		break
	}
	for !c.IsSet("no-ci") {
		answer, err := a.ask("write a GitHub workflow, yes or no", "yes")
		if err != nil {
			return err
		}
		answer = strings.ToLower(answer)
		if b.ci = answer == "yes" || answer == "y"; b.ci || answer == "no" || answer == "n" {
			break
		}
		fmt.Fprintln(a.stderr, "answer yes or no")
	}
	return nil
}

// askServer asks for the MCP server until it gets a valid answer.
func (b *newEval) askServer(a *asker) error {
	found := scaffold.Detect(os.DirFS("."))
	fmt.Fprint(b.stderr, "What is your MCP server? A command (npx -y PACKAGE, node server.js), a URL, a file\nsuch as mcp.json, or a directory.\n")
	for i, f := range found {
		fmt.Fprintf(b.stderr, "  %d  %s\n", i+1, text.Inert(f.What))
	}
	fallback := ""
	if len(found) > 0 {
		fallback = "1"
	}
	for {
		answer, err := a.ask("server", fallback)
		if err != nil {
			return err
		}
		b.detected = nil
		n, _ := strconv.Atoi(answer)
		words, unclosed := text.ShellWords(answer)
		switch {
		case answer == "":
			continue
		case unclosed != nil:
			err = usage("%w; write the command as in a shell", unclosed)
		case n > 0 && n <= len(found):
			err = b.setDetected(".", found[n-1])
		case len(words) == 1 && (isDir(answer) || isFile(answer) && strings.HasSuffix(answer, ".json") || strings.Contains(answer, "://")):
			err = b.setTarget(answer, nil)
		default:
			err = b.setCommand(".", words)
		}
		if err == nil {
			return nil
		}
		b.printError(err)
	}
}
