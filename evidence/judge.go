package evidence

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// Judge is the model that graders ask, and how it is reached. Its key is on no record:
// the runner reads it from the variable that APIKeyEnv names.
type Judge struct {
	BaseURL        string   `json:"base_url"`
	APIKeyEnv      string   `json:"api_key_env,omitempty"`      // empty where the endpoint takes no key
	Model          string   `json:"model,omitempty"`            // for graders that name none
	Override       string   `json:"judge_model,omitempty"`      // in place of every other
	TimeoutSeconds int      `json:"timeout_seconds"`            // for one answer
	MaxTokens      int      `json:"max_tokens,omitempty"`       // of one answer; 0 leaves it to the endpoint
	Temperature    *float64 `json:"temperature,omitempty"`      // nil leaves it to the endpoint
	Effort         string   `json:"reasoning_effort,omitempty"` // for graders that name none; empty leaves it to the endpoint
}

// Endpoint reads the base URL: over https, or over http to this machine, and without
// credentials. Errors go on behind the name of what holds the URL.
func (j Judge) Endpoint() (*url.URL, error) {
	u, err := url.Parse(j.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must be a URL that begins with https:// or, on this machine, http://")
	case u.User != nil:
		return nil, errors.New("must not hold credentials; name the variable that holds the key in api_key_env")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not have a query or a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("must begin with https://: over http the key can be read on the way; only this machine (localhost, 127.0.0.1, ::1) is asked over http")
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
	Schema      json.RawMessage `json:"schema"` // of the JSON object that is to be answered
	Sample      int             `json:"sample"` // of the same question, from 1
}

// JudgeMessage is one message of a chat.
type JudgeMessage struct {
	Role    string `json:"role"` // system or user
	Content string `json:"content"`
}

// JudgeAnswer is the Answer of a step of kind [StepJudge]. What it says is a
// stranger's text.
type JudgeAnswer struct {
	Text         string `json:"text"`
	Refusal      string `json:"refusal,omitempty"`       // what the model said in place of an answer
	Model        string `json:"model,omitempty"`         // as the endpoint names it
	Finish       string `json:"finish_reason,omitempty"` // such as stop, or length where it was cut off
	InputTokens  int64  `json:"input_tokens"`            // 0 where the endpoint does not say
	OutputTokens int64  `json:"output_tokens"`           // likewise
}
