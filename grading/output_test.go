package grading_test

import (
	"archive/tar"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

func TestDiff(t *testing.T) {
	s := scene{workspace: archive(t,
		file("report.txt", "title\nready: yes\nend\n"),
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "report.txt"},
	)}
	files := map[string][]byte{
		"same": []byte("title\nready: yes\nend\n"), "other": []byte("title\nready: no\nend\n"),
		"longer": []byte("title\nready: yes\nend\nmore\n"), "unended": []byte("title\nready: yes\nend"), "shorter": []byte("title\n"),
		"snapshots/same": []byte("title\nready: yes\nend\n"), "empty": {}, "unlike": []byte("title\nready: no\nmore\nend\n"),
	}
	snapshot := func(name string) string {
		return `{"expected_files":[{"path":"./report.txt","snapshot":"` + name + `"}]}`
	}
	for _, test := range []check{
		{"the same", s, snapshot("same"), pass, 1, "All 2"},
		{"in a directory", s, `{"context_dir":"snapshots","expected_files":[{"path":"report.txt","snapshot":"same"}]}`, pass, 1, ""},
		{"another line", s, snapshot("other"), fail, 0.5, `Expected "./report.txt" to equal the snapshot "other"; line 2 is "ready: yes\n", where "ready: no\n" was expected.`},
		{"another line before the ends part", s, snapshot("unlike"), fail, 0.5, "line 2"},
		{"too short", s, snapshot("longer"), fail, 0.5, `it ends after line 3, where "more\n" was expected`},
		{"too long", s, snapshot("shorter"), fail, 0.5, `it goes on after line 1 with "ready: yes\n", where the end was expected`},
		{"not empty", s, snapshot("empty"), fail, 0.5, `it goes on after line 0 with "title\n"`},
		{"an end of line", s, snapshot("unended"), fail, 0.5, `line 3 is "end\n", where "end" was expected`},
		{"fragments", s, `{"expected_files":[{"path":"report.txt","contains":["+ready: yes","title","-not ready"]}]}`, pass, 1, "All 4"},
		{"fragments that are not there", s, `{"expected_files":[{"path":"report.txt","contains":["+ready: no","- title "]}]}`, fail, 1.0 / 3, `Expected "report.txt" not to contain "title"; it does.`},
		{"no such file", s, `{"expected_files":[{"path":"a","snapshot":"same","contains":["-x"]}]}`, fail, 0, `Could not compare "a" with "same".`},
		{"a link", s, `{"expected_files":[{"path":"link","contains":["title"]}]}`, fail, 0, "not followed"},
		{"no workspace", scene{}, snapshot("same"), cannotSay, 0, "workspace.tar"},
		{"a gap", scene{workspace: s.workspace, trial: evidence.Trial{Gaps: []string{"workspace: too large"}}}, snapshot("same"), cannotSay, 0, "too large"},
		{"a snapshot that is not kept", s, snapshot("lost"), cannotSay, 0, `missing evidence: the file "lost"`},
	} {
		t.Run(test.name, func(t *testing.T) { judgeWith(t, test, "diff", files) })
	}
}

// judgeWith is run for a grader with files.
func judgeWith(t *testing.T, test check, kind string, files map[string][]byte) {
	t.Helper()
	spec := grader(kind, test.config)
	spec.Files = files
	test.scene.trial.Graders = []evidence.GraderSpec{spec}
	verdicts, err := gradeIn(lay(t, test.scene))
	if err != nil {
		t.Fatal(err)
	}
	got := verdicts.Verdicts[0]
	if got.Result != test.result || got.Score != test.score || !strings.Contains(got.Feedback, test.feedback) {
		t.Errorf("%s, %v: %s\nwant %s, %v: …%s…", got.Result, got.Score, got.Feedback, test.result, test.score, test.feedback)
	}
}

func TestJSONSchema(t *testing.T) {
	out := func(output string) scene { return scene{trial: evidence.Trial{FinalOutput: output}} }
	const schema = `{"schema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},"n":{"minimum":1}}}}`
	extract := `{"extract_json":true,` + schema[1:]
	run(t, "json_schema", []check{
		{"fits", out(` {"sku":"A","n":1} `), schema, pass, 1, ""},
		{"does not", out(`{"sku":7,"n":0.5}`), schema, fail, 0, `/n: got 0.5, want at least 1; /sku: got number, want string`},
		{"lacks something", out(`{}`), schema, fail, 0, "fit the schema; missing property 'sku'"},
		{"is none", out(`Here you are: {"sku":"A"}`), schema, fail, 0, "Expected the output to be JSON; it is not: invalid character 'H'"},
		{"is empty", out(``), schema, fail, 0, "it is empty"},
		{"is more than one value", out(`{"sku":"A"} {}`), schema, fail, 0, "it is not: invalid character '{' after top-level value"},
		{"stands in a text", out("Here you are:\n```json\n{\"sku\":\"A\"}\n```\n"), extract, pass, 1, ""},
		{"does not stand in it", out("Sorry [no"), extract, fail, 0, "no object or list in it"},
		{"stands in it twice", out(`{"sku":"A"} or {"sku":"B"}`), extract, fail, 0, "more than one object or list"},
		{"is whole, and not searched", out(`["{}"]`), extract, fail, 0, "got array, want object"},
		{"behind a bracket", out(`[see {"sku":"A"}`), extract, pass, 1, ""},
		{"brackets that never close", out(strings.Repeat("[", 1<<20)), extract, fail, 0, "too many brackets"},
		{"a number out of proportion", out(`{"sku":"A","n":1e1000001}`), schema, fail, 0, `the number "1e1000001" is too long or too large`},
		{"an exponent out of proportion", out(`{"sku":"A","n":1e-99999999999999999999}`), schema, fail, 0, "too large"},
		{"every digit", out(`9007199254740993`), `{"schema":{"const":9007199254740992}}`, fail, 0, ""},
		{"1.0 is an integer", out(`1.0`), `{"schema":{"type":"integer","const":1}}`, pass, 1, ""},
		{"no output was found", scene{trial: evidence.Trial{Gaps: []string{"final output: no file out.txt"}}}, schema, cannotSay, 0, "out.txt"},
	})
	file := map[string][]byte{"s.json": []byte(`{"type":"array"}`), "bad.json": []byte(`{"type":`), "outside.json": []byte(`{"$ref":"s.json"}`)}
	for _, test := range []check{
		{"of a file", out(`[]`), `{"schema_file":"s.json"}`, pass, 1, ""},
		{"of a file, and does not", out(`{}`), `{"schema_file":"s.json"}`, fail, 0, ""},
		{"of a file that is none", out(`{}`), `{"schema_file":"bad.json"}`, cannotSay, 0, "schema_file: it is not valid JSON"},
		{"of a file that leads to another", out(`{}`), `{"schema_file":"outside.json"}`, cannotSay, 0, "no other file is read"},
		{"of a file that is not kept", out(`{}`), `{"schema_file":"lost.json"}`, cannotSay, 0, "missing evidence"},
	} {
		t.Run(test.name, func(t *testing.T) { judgeWith(t, test, "json_schema", file) })
	}
}

// Any output of an agent can be searched for JSON and checked against a schema.
func FuzzJSONSchema(f *testing.F) {
	f.Add(`{"a":[1,2.5,"x"]}`, `{"properties":{"a":{"uniqueItems":true,"items":{"multipleOf":0.5}}}}`)
	f.Add(`text [1] {`, `{"type":"array","contains":{"minimum":0}}`)
	f.Add(`1e1000001`, `{"minimum":1}`)
	f.Add(`"x"`, `{"pattern":"^[a-z]+$","$ref":"#"}`)
	f.Fuzz(func(t *testing.T, output, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		s := scene{trial: evidence.Trial{FinalOutput: output}}
		if v := judge(t, s, "json_schema", `{"extract_json":true,"schema":`+schema+`}`); v.Feedback == "" {
			t.Errorf("%+v", v)
		}
	})
}

// A schema that leads to a file of this machine does not get it.
func TestSchemasLoadNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(path, []byte(`{"type":"string"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	v := judge(t, scene{trial: evidence.Trial{FinalOutput: `"x"`}}, "json_schema", `{"schema":{"$ref":"file://`+filepath.ToSlash(path)+`"}}`)
	if v.Result != cannotSay || !strings.Contains(v.Feedback, "no other file is read") {
		t.Errorf("%+v", v)
	}
}
