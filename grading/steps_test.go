package grading_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// withAnswers is evidence in which every ask of a grader has one of the answers, in order.
func withAnswers(t *testing.T, s scene, kind, config string, answers ...string) scene {
	t.Helper()
	for i, ask := range grading.Asks([]evidence.GraderSpec{grader(kind, config)}) {
		raw, err := ask.Raw()
		if err != nil {
			t.Fatal(err)
		}
		s.steps = append(s.steps, evidence.Step{Grader: ask.Grader, Kind: ask.Kind, Ask: raw, Answer: json.RawMessage(answers[i])})
	}
	return s
}

func TestProgram(t *testing.T) {
	const config = `{"command":"check"}`
	for _, test := range []struct {
		name, answer string
		result       evidence.VerdictResult
		feedback     string
	}{
		{"exits with 0", `{"exit_code":0}`, pass, "holds"},
		{"and says why", `{"exit_code":0,"stdout":{"text":" fine\n"}}`, pass, "fine"},
		{"exits otherwise", `{"exit_code":2,"stderr":{"text":"no a.txt\n"}}`, fail, `Expected program "check" to exit with 0; it exited with 2. Its stderr: "no a.txt".`},
		{"prints much", `{"exit_code":1,"stderr":{"text":"sleep: invalid time interval 'x'\nand\nso on\nTry 'sleep --help'.\n"}}`, fail, `Its stderr: "sleep: invalid time interval 'x' … Try 'sleep --help'.".`},
		{"is killed", `{"signal":"SIGKILL","breaches":[{"kind":"oom","what":"ran out of memory"}]}`, fail, "ended by SIGKILL, and its container ran out of memory"},
		{"breaks its container", `{"broke":"went away"}`, fail, "it broke its container: went away"},
		{"does not start", `{"not_started":"no such program"}`, cannotSay, "could not be started: no such program"},
		{"says nothing of its end", `{}`, fail, "not known"},
		{"is no answer", `[]`, cannotSay, "cannot be read"},
	} {
		v := judge(t, withAnswers(t, scene{}, "program", config, test.answer), "program", config)
		if v.Result != test.result || !strings.Contains(v.Feedback, test.feedback) {
			t.Errorf("%s: %s: %s; want %s: …%s…", test.name, v.Result, v.Feedback, test.result, test.feedback)
		}
	}
	other := withAnswers(t, scene{}, "program", config, `{"exit_code":0}`)
	for name, config := range map[string]string{"another question": `{"command":"check","args":["-v"]}`, "a longer time": `{"command":"check","timeout":31}`} {
		if v := judge(t, other, "program", config); v.Result != cannotSay || !strings.Contains(v.Feedback, "run the trial again") {
			t.Errorf("%s: %s: %s", name, v.Result, v.Feedback)
		}
	}
	if v := judge(t, other, "program", `{"timeout":30,"command":"check","args":[]}`); v.Result != pass {
		t.Errorf("the same question written otherwise: %s: %s", v.Result, v.Feedback)
	}
	unanswered := other
	unanswered.steps = []evidence.Step{other.steps[0]}
	unanswered.steps[0].Answer, unanswered.steps[0].Error = nil, "there is no workspace to look at"
	if v := judge(t, unanswered, "program", config); v.Result != cannotSay || !strings.Contains(v.Feedback, "no workspace") {
		t.Errorf("%s: %s", v.Result, v.Feedback)
	}
}

func TestState(t *testing.T) {
	s := scene{trial: evidence.Trial{Servers: servers("bank")}}
	for _, test := range []struct {
		name, config, answer string
		result               evidence.VerdictResult
		score                float64
		feedback             string
	}{
		{"numbers by value", `{"server":"bank","calls":[{"tool":"get","result":{"values":{"sum":1}}}]}`,
			`{"process":"last","outcome":"ok","result":{"content":[],"structuredContent":{"sum":1.0,"more":true}}}`, pass, 1, ""},
		{"text that is JSON", `{"server":"bank","calls":[{"tool":"get","result":{"match":"exact","values":{"sum":9007199254740993}}}]}`,
			`{"outcome":"ok","result":{"content":[{"type":"text","text":"{\"sum\":9007199254740992}"}]}}`, fail, 0.5, "9007199254740993"},
		{"text that is none", `{"server":"bank","calls":[{"tool":"get","result":{"values":{"sum":1}}}]}`,
			`{"outcome":"ok","result":{"content":[{"type":"text","text":"one"}]}}`, fail, 0.5, `to be JSON; it is "one"`},
		{"an error of the protocol", `{"server":"bank","calls":[{"tool":"get","error":true,"contains":["no such","tool"]}]}`,
			`{"outcome":"protocol_error","error":{"code":-32602,"message":"no such tool"}}`, pass, 1, ""},
		{"no answer is no failure", `{"server":"bank","calls":[{"tool":"get","error":true,"contains":"x"}]}`,
			`{"outcome":"timeout","message":"too late"}`, fail, 0, "it was a timeout: too late"},
		{"a file", `{"server":"bank","files":[{"path":"/a","json":{"values":{"x":{"range":[1,2]}}},"matches":"x"}]}`, `{"kind":"file","content":"{\"x\":2}"}`, pass, 1, ""},
		{"a link", `{"server":"bank","files":[{"path":"/a/b"}]}`, `{"kind":"link","at":"/a"}`, fail, 0, `there is on the way, at "/a", a symbolic link`},
		{"a directory has no text", `{"server":"bank","files":[{"path":"/a","contains":"x"}]}`, `{"kind":"directory","unread":"it is not a file"}`, fail, 0.5, "it is not a file"},
		{"nothing", `{"server":"bank","files":[{"path":"/a","exists":false}]}`, `{"kind":""}`, pass, 1, ""},
		{"something", `{"server":"bank","files":[{"path":"/a","exists":false}]}`, `{"kind":"special"}`, fail, 0, "there is a special file"},
		{"a server that is not there", `{"server":"till","calls":[{"tool":"get"}]}`, `{"outcome":"ok"}`, cannotSay, 0, `no server "till"`},
	} {
		v := judge(t, withAnswers(t, s, "state", test.config, test.answer), "state", test.config)
		if v.Result != test.result || v.Score != test.score || !strings.Contains(v.Feedback, test.feedback) {
			t.Errorf("%s: %s, %v: %s; want %s, %v: …%s…", test.name, v.Result, v.Score, v.Feedback, test.result, test.score, test.feedback)
		}
	}
}

// FuzzSteps grades by arbitrary answers, each of which must lead to a verdict.
func FuzzSteps(f *testing.F) {
	f.Add("program", []byte(`{"command":"a"}`), []byte(`{"exit_code":0}`))
	f.Add("code", []byte(`{"assertions":["True"]}`), []byte(`{"exit_code":0,"stdout":{"text":"{\"results\":[{\"holds\":true}]}"}}`))
	f.Add("state", []byte(`{"server":"s","calls":[{"tool":"t","result":{"values":{"a":{"set":[1]}}}}]}`), []byte(`{"outcome":"ok","result":{"structuredContent":{"a":[1]}}}`))
	f.Add("state", []byte(`{"server":"s","files":[{"path":"/a","json":{"values":{"a":1}}}]}`), []byte(`{"kind":"file","content":"{}"}`))
	f.Fuzz(func(t *testing.T, kind string, config, answer []byte) {
		if !json.Valid(config) || !json.Valid(answer) {
			return
		}
		s := scene{trial: evidence.Trial{Servers: servers("s")}}
		for _, ask := range grading.Asks([]evidence.GraderSpec{grader(kind, string(config))}) {
			raw, err := ask.Raw()
			if err != nil {
				t.Fatal(err)
			}
			s.steps = append(s.steps, evidence.Step{Grader: ask.Grader, Kind: ask.Kind, Ask: raw, Answer: answer})
		}
		if v := judge(t, s, kind, string(config)); v.Feedback == "" || v.Score < 0 || v.Score > 1 || v.Result == "" {
			t.Errorf("%+v", v)
		}
	})
}
