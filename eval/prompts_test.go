package eval

import (
	"strings"
	"testing"
)

func TestFillPrompt(t *testing.T) {
	v := promptValues{TaskName: "T", Vars: map[string]string{"lang": "Go", "none": "", "my key": "k", "code": "{{.Vars.lang}}", "big": strings.Repeat("x", maxPart)}}
	for _, test := range []struct{ prompt, want string }{
		{"plain", "plain"},
		{"{{.Vars.lang}} {{ .Vars.lang }} {{- .TaskName -}} {{.Iteration}}{{.Attempt}}", "Go GoT00"},
		{`{{index .Vars "my key"}}`, "k"},
		{`{{if .Vars.none}}a{{else if eq .Vars.lang "Go"}}b{{else}}c{{end}}`, "b"},
		{`{{with .Vars.lang}}{{.}} of {{$.TaskName}}{{end}}{{/* not shown */}}`, "Go of T"},
		{`{{.Vars.lang | printf "%q" | html}} {{len .Vars.lang}} {{slice .Vars.lang 1}} {{not .Vars.none}}`, "&#34;Go&#34; 2 o true"},
		{"{{.Vars.code}}", "{{.Vars.lang}}"},
		{"{{fixture:a.py}} {{ name }} {{.lower}} {{.Vars.lang}}", "{{fixture:a.py}} {{ name }} {{.lower}} Go"},
		{"{{if x}} {{end}} {{ `a }} ${{ secrets.X }}", "{{if x}} {{end}} {{ `a }} ${{ secrets.X }}"},
	} {
		if got, err := v.fill(test.prompt); got != test.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", test.prompt, got, err, test.want)
		}
	}
	for prompt, want := range map[string]string{
		"{{.Vars.long}}":                           `{{.Vars.long}}, and inputs has no "long"; did you mean "lang"?`,
		"{{.JobID}}":                               "{{.JobID}}, which is unknown or differs in each run",
		"{{range .Vars}}x{{end}}":                  "{{range .Vars}}, which is not supported in prompts",
		"{{range 1000000000}}{{end}}{{.TaskName}}": "not supported",
		`{{define "x"}}{{template "x"}}{{end}}{{template "x" .TaskName}}`: "{{template \"x\" .TaskName}}, which is not supported",
		"{{$a := .Vars.lang}}{{$a}}":                                      "variables are not supported",
		"{{call .Vars.lang}}":                                             "the function call",
		"{{.Vars.lang.X}}":                                                "a template that cannot be filled: line 1",
		"{{if .Vars.lang}}":                                               "a template that cannot be filled: line 1: unexpected EOF",
		"{{.Vars.lang | nope}}":                                           `function "nope" not defined`,
		"{{print .Vars.big .Vars.big}}":                                   "makes more than 65536 bytes",
		`{{printf "%[1]s%[1]s" .Vars.big}}`:                               "makes more than 65536 bytes",
		`{{printf "%99999s" .Vars.lang}}`:                                 "makes more than 65536 bytes",
		"{{" + strings.Repeat("(", 5000) + ".TaskName}}":                  "too many",
		strings.Repeat("{{.Vars.big}}", 200):                              "more than 8 MiB",
		"{{(index .Vars \"lang\").Foo}} {{.TaskName}}":                    "cannot be filled",
	} {
		if got, err := v.fill(prompt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %.60q, %v; want %q", prompt, got, err, want)
		}
	}
}

// Whatever a prompt has, it is filled or refused.
func FuzzFillPrompt(f *testing.F) {
	f.Add("{{if .Vars.a}}x{{else}}{{.TaskName | printf `%s`}}{{end}}")
	f.Add("{{with .Vars.a}}{{index $.Vars .}}{{end}}")
	f.Fuzz(func(t *testing.T, prompt string) {
		got, err := (promptValues{TaskName: "t", Vars: map[string]string{"a": "a"}}).fill(prompt)
		if len(got) > maxFilled && err == nil {
			t.Errorf("%q gives %d bytes", prompt, len(got))
		}
	})
}
