package grading

import (
	"strings"
	"testing"
)

func TestParseOpinion(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		score float64
		wrong string // part of the error; empty for success
	}{
		"bare":                   {text: `{"score": 0.5, "reason": "half"}`, score: 0.5},
		"blanks around":          {text: "\n {\"reason\":\"\",\"score\":1}\n\n", score: 1},
		"fenced":                 {text: "```json\n{\"score\": 0.25, \"reason\": \"r\"}\n```", score: 0.25},
		"fenced without a name":  {text: "```\r\n{\"score\": 1e-1, \"reason\": \"r\"}\r\n```", score: 0.1},
		"minus zero":             {text: `{"score": -0.0, "reason": "r"}`, score: 0},
		"nothing":                {text: "", wrong: "no JSON object"},
		"prose":                  {text: "It did well.", wrong: "no JSON object"},
		"prose before":           {text: `Sure: {"score": 1, "reason": "r"}`, wrong: "no JSON object"},
		"prose behind":           {text: `{"score": 1, "reason": "r"} Done.`, wrong: "something follows"},
		"two objects":            {text: `{"score": 1, "reason": "r"}{"score": 0, "reason": "r"}`, wrong: "something follows"},
		"two blocks":             {text: "```\n{\"score\":1,\"reason\":\"r\"}\n```\n```\n{\"score\":0,\"reason\":\"r\"}\n```", wrong: "something follows"},
		"a block and prose":      {text: "```\n{\"score\":1,\"reason\":\"r\"}\n```\nDone.", wrong: "no JSON object"},
		"a list":                 {text: `[{"score": 1, "reason": "r"}]`, wrong: "no JSON object"},
		"cut off":                {text: `{"score": 1, "reason": "r`, wrong: "no valid JSON"},
		"not closed":             {text: `{"score": 1, "reason": "r"`, wrong: "no valid JSON"},
		"no score":               {text: `{"reason": "r"}`, wrong: "lacks"},
		"no reason":              {text: `{"score": 1}`, wrong: "lacks"},
		"a score twice":          {text: `{"score": 0, "score": 1, "reason": "r"}`, wrong: `"score" appears twice`},
		"another case":           {text: `{"Score": 1, "reason": "r"}`, wrong: `key "Score"`},
		"another key":            {text: `{"score": 1, "reason": "r", "passed": true}`, wrong: `key "passed"`},
		"over one":               {text: `{"score": 1.01, "reason": "r"}`, wrong: "from 0 to 1"},
		"below zero":             {text: `{"score": -1, "reason": "r"}`, wrong: "from 0 to 1"},
		"too large to be one":    {text: `{"score": 1e999, "reason": "r"}`, wrong: "from 0 to 1"},
		"a string for a score":   {text: `{"score": "1", "reason": "r"}`, wrong: "from 0 to 1"},
		"true for a score":       {text: `{"score": true, "reason": "r"}`, wrong: "from 0 to 1"},
		"null for a score":       {text: `{"score": null, "reason": "r"}`, wrong: "lacks"},
		"an object for a score":  {text: `{"score": {"score": 1}, "reason": "r"}`, wrong: "from 0 to 1"},
		"a number for a reason":  {text: `{"score": 1, "reason": 1}`, wrong: "not a string"},
		"no number at all":       {text: `{"score": NaN, "reason": "r"}`, wrong: "no valid JSON"},
		"a comma behind the end": {text: `{"score": 1, "reason": "r",}`, wrong: "no valid JSON"},
	} {
		got, err := parseOpinion(test.text)
		switch {
		case test.wrong == "" && (err != nil || got.Score != test.score):
			t.Errorf("%s: %v, %v", name, got, err)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%s: got %+v, %v; want …%s…", name, got, err, test.wrong)
		}
	}
}

// Every answer of a model is either refused or has a score from 0 to 1, and is never read
// as more than one opinion.
func FuzzParseOpinion(f *testing.F) {
	for _, seed := range []string{
		`{"score":0.5,"reason":"r"}`, "```json\n{\"score\":1,\"reason\":\"\"}\n```", `{"score":1,"score":0}`, `{"score":-0,"reason":"\ud800"}`, "[", "{{",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseOpinion(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if !(o.Score >= 0 && o.Score <= 1) {
			t.Errorf("score %v", o.Score)
		}
		if again, err := parseOpinion("```json\n" + strings.TrimSpace(text) + "\n```"); !strings.Contains(text, "```") && (err != nil || again != o) {
			t.Errorf("fenced it is %+v, %v and else %+v", again, err, o)
		}
		if _, err := parseOpinion(text + text); err == nil {
			t.Error("two are read as one")
		}
	})
}
