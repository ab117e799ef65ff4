package main

import (
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/judge"
	"github.com/waza-isolate/waza/runner/trial"
)

// judges connects to the judges of trials, with keys out of the environment.
type judges struct {
	lookup  func(string) (string, bool)
	secrets *redact.Set

	mu    sync.Mutex
	known map[endpoint]*judge.Client // guarded by mu
}

// endpoint is what of a judge a client depends on.
type endpoint struct {
	baseURL, keyEnv string
	seconds         int
}

func newJudges(s *state, secrets *redact.Set) *judges {
	return &judges{lookup: s.lookup, secrets: secrets, known: map[endpoint]*judge.Client{}}
}

// connect reads the key of j and returns a client for its endpoint, the same for the
// same one. What is wrong is a usage error.
func (c *judges) connect(j evidence.Judge) (trial.Judge, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := endpoint{j.BaseURL, j.APIKeyEnv, j.TimeoutSeconds}
	if client, ok := c.known[at]; ok {
		return client, nil
	}
	key := ""
	if j.APIKeyEnv != "" {
		key, _ = c.lookup(j.APIKeyEnv)
	}
	client, err := judge.New(j, key, c.secrets)
	if err != nil {
		return nil, usage("the judge of graders: %w", err)
	}
	c.known[at] = client
	return client, nil
}

const (
	judgeURL    = "judge-url"
	judgeKeyEnv = "judge-key-env"
)

// judgeFlags say which judge the record of a run may have asked.
func judgeFlags(with string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: judgeURL, Usage: "ask the judge although it is at this `URL`; with " + with},
		&cli.StringFlag{Name: judgeKeyEnv, Usage: "send it the key in this `VARIABLE`; with " + with},
	}
}

// consulting asks judges that are on record, as far as the command line c lets it.
func (s *state) consulting(c *cli.Context) trial.Consulting {
	judges := newJudges(s, &redact.Set{})
	return trial.Consulting{Secrets: judges.secrets, Connect: func(j evidence.Judge) (trial.Judge, error) {
		if missing := unnamed(j, c.String(judgeURL), c.String(judgeKeyEnv)); missing != "" {
			return nil, usage("the run's record says where its judge is asked and with which variable as key, and may be a stranger's: if you want that, give %s", missing)
		}
		return judges.connect(j)
	}}
}

// unnamed is what a command line with these flags lacks to have a recorded judge asked;
// empty for nothing. The record may be a stranger's: where it names another endpoint than
// the usual one, or has another variable's value sent there, a person has to say so too.
func unnamed(j evidence.Judge, url, keyEnv string) (flags string) {
	isKnown, isUsual := false, false
	for _, kind := range eval.ModelKinds() {
		if _, usual := eval.ModelDefaults(kind); j.BaseURL == eval.ChatDefault(kind) {
			isKnown, isUsual = true, j.APIKeyEnv == usual
		}
	}
	if j.BaseURL != url && !isKnown {
		flags = "--" + judgeURL + " " + text.ShellWord(j.BaseURL)
	}
	if j.APIKeyEnv != "" && j.APIKeyEnv != keyEnv && !isUsual {
		flags += " --" + judgeKeyEnv + " " + text.ShellWord(j.APIKeyEnv)
	}
	return strings.TrimSpace(flags)
}
