package docs_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/golden"
)

// graderExample is a block that shows graders and nothing around them.
var graderExample = regexp.MustCompile("(?ms)^```yaml\n(graders:\n.*?)^```$")

// TestGradersDoWhatTheirPageSays grades by every example of the page on graders: it
// passes over one trial and fails over another, with the feedback that is kept. Their
// evidence is in testdata/graders, in a file of the grader's name.
func TestGradersDoWhatTheirPageSays(t *testing.T) {
	page := read(t, "graders.md")
	var shown []string
	for _, match := range graderExample.FindAllStringSubmatch(page, -1) {
		for _, grader := range gradersOf(t, match[1]) {
			shown = append(shown, grader.Type)
			t.Run(grader.Type+"/"+grader.Name, func(t *testing.T) { gradeExample(t, grader) })
		}
	}
	for _, kind := range grading.Types() {
		if !slices.Contains(anchors(page), kind) || !slices.Contains(shown, kind) {
			t.Errorf("graders.md has no section or no example of %s", kind)
		}
	}
}

// shownFeedback is a block that shows what a grader said.
var shownFeedback = regexp.MustCompile("(?ms)^```\n((?:Gate failed: )?Expected .*?)^```$")

// TestShownFeedbackIsReal checks that the page shows what an example gives, but for
// where its lines break.
func TestShownFeedbackIsReal(t *testing.T) {
	var given []string
	kept, err := filepath.Glob("testdata/graders/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range kept {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, strings.Join(strings.Fields(filesOf(archive, "fail")["feedback"]), " "))
	}
	shown := shownFeedback.FindAllStringSubmatch(read(t, "graders.md"), -1)
	for _, match := range shown {
		if text := strings.Join(strings.Fields(match[1]), " "); !slices.Contains(given, text) {
			t.Errorf("no example gives %s", text)
		}
	}
	if len(shown) == 0 {
		t.Error("no feedback is shown")
	}
}

// gradersOf reads graders as part of an eval.
func gradersOf(t *testing.T, graders string) []evidence.GraderSpec {
	t.Helper()
	e := filepath.Join(unpack(t, example{
		"eval.yaml": "name: n\ntasks: [task.yaml]\nconfig:\n  trials_per_task: 1\n  timeout_seconds: 1\n  executor: mock\n" +
			"  judge: {base_url: \"https://models.example/v1\", model: some-model}\n" +
			"  isolation: {server_image: i}\n  mcp_servers: {inventory: {command: c}, payments: {command: c}}\n" +
			"  canaries: {api_key: {plant: [{file: .env}]}, customer: {plant: [{server: inventory, env: CARD}]}}\n" + graders,
		"task.yaml":             "id: plain\ninputs: {prompt: p}\n",
		"skills/stock/SKILL.md": "---\nname: stock\ndescription: 'Counts parts. USE FOR: \"how many are left\", \"reserve a part\". DO NOT USE FOR: prices.'\n---\nLook the part up by its number and count what is on the shelf.\n",
		"expected/parts.csv":    "sku,quantity\nBRG-6204,31\n",
	}), "eval.yaml")
	_, tasks, err := eval.Load(e, eval.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, graders)
	}
	return tasks[0].Graders
}

func gradeExample(t *testing.T, grader evidence.GraderSpec) {
	path := filepath.Join("testdata", "graders", grader.Name+".txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []evidence.VerdictResult{evidence.VerdictPass, evidence.VerdictFail} {
		files := filesOf(archive, string(want))
		dir := evidenceOf(t, files, grader)
		trial, err := dir.Trial()
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := grading.Grade(dir, trial)
		if err != nil {
			t.Fatal(err)
		}
		got := verdicts.Verdicts[0]
		if got.Result != want {
			t.Errorf("%s: %s", got.Result, got.Feedback)
		}
		feedback := string(want) + "/feedback"
		if *golden.Update {
			setFile(archive, feedback, got.Feedback+"\n")
		} else if diff := cmp.Diff(files["feedback"], got.Feedback+"\n"); diff != "" {
			t.Errorf("%s\n%s", feedback, diff)
		}
	}
	if *golden.Update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// filesOf are the files of an archive under a directory, by their names there, and
// those in no directory of a result, which are of every trial.
func filesOf(archive *txtar.Archive, result string) map[string]string {
	files := map[string]string{}
	for _, file := range archive.Files {
		top, rest, _ := strings.Cut(file.Name, "/")
		switch top {
		case result:
			files[rest] = string(file.Data)
		case "pass", "fail":
		default:
			files[file.Name] = string(file.Data)
		}
	}
	return files
}

func setFile(archive *txtar.Archive, name, content string) {
	named := func(f txtar.File) bool { return f.Name == name }
	i := slices.IndexFunc(archive.Files, named)
	if i < 0 {
		i = len(archive.Files)
		archive.Files = append(archive.Files, txtar.File{Name: name})
	}
	archive.Files[i].Data = []byte(content)
}

// evidenceOf lays down a trial that grader grades: wire.jsonl in place of frames,
// output.txt, the files of workspace/, steps.jsonl without what is asked and judge.txt
// with what a judge answers, and what else evidence has by its own name.
func evidenceOf(t *testing.T, files map[string]string, grader evidence.GraderSpec) evidence.Dir {
	t.Helper()
	trial := evidence.Trial{
		Executor: "command", Graders: []evidence.GraderSpec{grader}, FinalOutput: strings.TrimSpace(files["output.txt"]),
		Prompt:  strings.TrimSpace(files["prompt.txt"]),
		Servers: []evidence.ServerRecord{{Name: "inventory"}, {Name: "payments"}}, Judge: judge(),
		Canaries: []evidence.Canary{{Name: "api_key"}, {Name: "customer"}}, Watched: []string{evidence.ByArgument, evidence.ByDNS, evidence.ByEgress},
	}
	trial.AgentStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trial.AgentEnd = trial.AgentStart.Add(time.Minute)
	laid := example{evidence.FramesFile: framesOf(t, files["wire.jsonl"])}
	made := []string{"wire.jsonl", evidence.StepsFile}
	var workspace bytes.Buffer
	archive := tar.NewWriter(&workspace)
	for name, content := range files {
		inside, ok := strings.CutPrefix(name, "workspace/")
		switch {
		case ok:
			addFile(t, archive, inside, content)
		case strings.HasSuffix(name, ".jsonl") && !slices.Contains(made, name):
			laid[name] = content
		}
	}
	if _, reported := laid[evidence.TranscriptFile]; reported {
		trial.Executor = "script"
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	laid[evidence.WorkspaceFile] = workspace.String()
	dir := evidence.Dir(unpack(t, laid))
	if err := dir.WriteTrial(trial); err != nil {
		t.Fatal(err)
	}
	answerSteps(t, dir, grader, files[evidence.StepsFile])
	answerJudge(t, dir, files["judge.txt"])
	return dir
}

func addFile(t *testing.T, archive *tar.Writer, name, content string) {
	t.Helper()
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
}

// exchange is a request of the agent's and its answer, as wire.jsonl has them: a call
// of a tool, with tools a listing, with resource a reading.
type exchange struct {
	Server    string
	Tool      string
	Resource  string
	Tools     json.RawMessage
	Arguments json.RawMessage
	Result    json.RawMessage
	Error     json.RawMessage
	Fault     evidence.FaultKind
}

func (x exchange) frames(id int) (request, answer string) {
	switch {
	case x.Tools != nil:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":%s}}`, id, x.Tools)
	case x.Error != nil:
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":%s}`, id, x.Error)
	case x.Result != nil:
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, x.Result)
	default:
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, id)
	}
	ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":`, id)
	switch {
	case x.Resource != "":
		return ask + fmt.Sprintf(`"resources/read","params":{"uri":%q}}`, x.Resource), answer
	case x.Arguments == nil:
		x.Arguments = json.RawMessage("{}")
	}
	return ask + fmt.Sprintf(`"tools/call","params":{"name":%q,"arguments":%s}}`, x.Tool, x.Arguments), answer
}

func framesOf(t *testing.T, wire string) string {
	t.Helper()
	var frames strings.Builder
	var seq int64
	add := func(server string, dir evidence.Direction, fault evidence.FaultKind, raw string) {
		seq++
		frame := evidence.Frame{Seq: seq, Server: server, Conn: server, Dir: dir, Fault: fault, Raw: []byte(raw)}
		line, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&frames, "%s\n", line)
	}
	for id, line := range strings.Split(strings.TrimSpace(wire), "\n") {
		if line == "" {
			continue
		}
		var x exchange
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		request, answer := x.frames(id)
		add(x.Server, evidence.ToServer, x.Fault, request)
		add(x.Server, evidence.ToClient, "", answer)
	}
	return frames.String()
}
