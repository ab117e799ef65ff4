package grading

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// Languages of assertions.
const (
	Python     = "python"
	JavaScript = "javascript"
)

// CodeConfig configures the code grader: expressions over a trial's outcome, evaluated after the
// agent has stopped. Each is one check.
type CodeConfig struct {
	_ struct{} `unknown:"warn"`

	Assertions []string `json:"assertions,omitempty" jsonschema:"expressions that must be true, over output, outcome, transcript, tool_calls, errors, duration_ms and workspace; an empty list passes"`
	Language   string   `json:"language,omitempty" enum:"python javascript" jsonschema:"language of the expressions; default python"`
	Timeout    int      `json:"timeout,omitempty" min:"0" max:"3600" jsonschema:"time limit of all expressions together, in seconds; default 30"`
	Image      string   `json:"image,omitempty" jsonschema:"image of their container, with python3 or node; default config.isolation.pypi_image or npm_image"`
}

// Validate refuses empty expressions, and an image with blanks in its name.
func (c *CodeConfig) Validate() error {
	errs := []error{checkProgram(c.Image, nil)}
	for i, expression := range c.Assertions {
		if strings.TrimSpace(expression) == "" {
			errs = append(errs, fmt.Errorf("assertions[%d]: empty", i))
		}
	}
	return errors.Join(errs...)
}

// empty reports whether there is no check.
func (c *CodeConfig) empty() bool { return len(c.Assertions) == 0 }

func (c *CodeConfig) ask() evidence.ProgramAsk {
	return evidence.ProgramAsk{
		Image: c.Image, Language: cmp.Or(c.Language, Python), Assertions: c.Assertions, Seconds: cmp.Or(c.Timeout, defaultSeconds),
	}
}

func (c *CodeConfig) asks() []any {
	if c.empty() {
		return nil
	}
	return []any{c.ask()}
}

// assertionResult is the result of one assertion, as our script reports it.
type assertionResult struct {
	Holds bool   `json:"holds"`
	Error string `json:"error"`
}

func (c *CodeConfig) grade(s *subject) (report, error) {
	if c.empty() {
		return report{said: "There are no assertions."}, nil
	}
	ask := c.ask()
	var a evidence.ProgramAnswer
	if err := cmp.Or(givenRemoved(s.trial), s.answer(ask, &a)); err != nil {
		return report{}, err
	}
	if a.NotStarted != "" {
		return report{}, fmt.Errorf("the assertions could not be evaluated: %s; its image must have %s", a.NotStarted, Interpreter(ask.Language))
	}
	r := report{details: programDetails(a)}
	results, err := readResults(a.Stdout.Text, len(c.Assertions))
	if why := ended(a, ask.Seconds); why != "" || err != nil {
		if why == "" {
			why = err.Error()
		}
		r.check("assertions", false, "The assertions did not come to their end: %s.%s", why, spoken(a))
		for _, expression := range c.Assertions {
			r.check("assertions", false, "Could not evaluate %s.", quote(expression))
		}
		return r, nil
	}
	for i, expression := range c.Assertions {
		switch found := results[i]; {
		case found.Error != "":
			r.check("assertions", false, "Expected %s to hold; it failed: %s.", quote(expression), shorten(found.Error))
		default:
			r.check("assertions", found.Holds, "Expected %s to hold; it does not.", quote(expression))
		}
	}
	delete(r.details, "stdout") // it is our script's
	return r, nil
}

// Interpreter returns the program that evaluates assertions of a language.
func Interpreter(language string) string {
	if language == JavaScript {
		return "node"
	}
	return "python3"
}

// readResults decodes the last line of output, which the script writes after the
// expressions were evaluated.
func readResults(stdout string, want int) ([]assertionResult, error) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var answer struct {
		Results []assertionResult `json:"results"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &answer); err != nil || len(answer.Results) != want {
		return nil, errors.New("an expression ended the evaluation, or spoilt its answer")
	}
	return answer.Results, nil
}
