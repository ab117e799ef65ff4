package main

import (
	"sync"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/judge"
	"github.com/waza-isolate/waza/runner/redact"
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
func (c *judges) connect(j evidence.Judge) (runner.Judge, error) {
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

func (c *judges) consulting() runner.Consulting {
	return runner.Consulting{Connect: c.connect, Secrets: c.secrets}
}

// checkJudges has a client for every judge before any trial runs.
func (j *job) checkJudges() error {
	for _, t := range j.trials {
		if t.Judge == nil {
			continue
		}
		if _, err := j.judges.connect(*t.Judge); err != nil {
			return err
		}
	}
	return nil
}
