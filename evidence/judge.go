package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Judge configures the model that graders ask. Its API key is not recorded: the runner
// reads it from the environment variable APIKeyEnv.
type Judge struct {
	BaseURL        string   `json:"base_url"`
	APIKeyEnv      string   `json:"api_key_env,omitempty"`      // empty if the endpoint needs no key
	Model          string   `json:"model,omitempty"`            // for graders without one
	Override       string   `json:"judge_model,omitempty"`      // in place of Model
	TimeoutSeconds int      `json:"timeout_seconds"`            // per answer
	MaxTokens      int      `json:"max_tokens,omitempty"`       // per answer; 0 for the endpoint's default
	Temperature    *float64 `json:"temperature,omitempty"`      // nil for the endpoint's default
	Effort         string   `json:"reasoning_effort,omitempty"` // for graders without one; empty for the endpoint's default
}

// Endpoint parses the base URL, which must use https, or http on this machine, and have no
// credentials. Callers prefix the error with the name of the setting.
func (j Judge) Endpoint() (*url.URL, error) {
	return ReadBaseURL(j.BaseURL, isLoopback, "on this machine", "this machine (localhost, 127.0.0.1, ::1)")
}

// ReadBaseURL parses the base URL of a model's API, which must use https, or http for hosts that
// are near, and have no credentials. where and allowed say in messages which hosts are near.
// Callers prefix the error with the name of the setting.
func ReadBaseURL(text string, near func(host string) bool, where, allowed string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("must be a URL that begins with https:// or, %s, http://", where)
	case u.User != nil:
		return nil, errors.New("must not hold credentials; name the variable that holds the key in api_key_env")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not have a query or a fragment")
	case u.Scheme == "http" && !near(u.Hostname()):
		return nil, fmt.Errorf("must begin with https://: http would expose the key and is allowed only for %s", allowed)
	}
	return u, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// JudgeAsk is the Ask of a step of kind [StepJudge]: one chat completion.
type JudgeAsk struct {
	Model       string          `json:"model"`
	Messages    []JudgeMessage  `json:"messages"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	Effort      string          `json:"reasoning_effort,omitempty"`
	Schema      json.RawMessage `json:"schema"` // of the JSON object to answer with
	Sample      int             `json:"sample"` // number of the sample of the same question, from 1
}

// JudgeMessage is one message of a chat.
type JudgeMessage struct {
	Role    string `json:"role"` // system or user
	Content string `json:"content"`
}

// JudgeAnswer is the Answer of a step of kind [StepJudge]. Its text is untrusted.
type JudgeAnswer struct {
	Text         string `json:"text"`
	Refusal      string `json:"refusal,omitempty"`       // why the model refused to answer
	Model        string `json:"model,omitempty"`         // as the endpoint names it
	Finish       string `json:"finish_reason,omitempty"` // such as stop, or length if truncated
	InputTokens  int64  `json:"input_tokens"`            // 0 if unknown
	OutputTokens int64  `json:"output_tokens"`           // 0 if unknown
}
