package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// Every example runs, on one kind of network or the other, and its verdicts can be repeated.
func TestExamples(t *testing.T) {
	t.Parallel()
	for i, e := range examples() {
		t.Run(e.name, func(t *testing.T) { e.run(t, dockertest.Waza(t), networks[i%2]) })
	}
}

// The first one is run by waza as go install builds it, too, on the other kind of network.
func TestExamples_GoInstall(t *testing.T) {
	examples()[0].run(t, dockertest.Program(t, "cmd/waza", "waza"), networks[1])
}

// TestExamples_Browser has a test of its own because its image, with Chromium, takes long to build.
func TestExamples_Browser(t *testing.T) {
	browser.run(t, dockertest.Waza(t), "airtight")
}

var browser = example{"browser", "node:24-bookworm-slim", "config:\n", "  isolation: {network: NETWORK}\n", 1, exitOK, exploreBrowser}

var networks = [2]string{"bridge", "airtight"}

type example struct {
	name    string
	image   string // or several, with blanks between
	where   string // line of its eval that the network is written below
	indent  string
	trials  int
	exit    int
	explore func(*testing.T, *project)
}

func examples() []example {
	return []example{
		{"mcp-eval", inventory, "config:\n", "  isolation: {network: NETWORK}\n", 3, exitOK, exploreInventory},
		{"real-servers", npmServers + " " + goMemory, "  isolation:\n", "    network: NETWORK\n", 7, exitOK, exploreRealServers},
		{"services", "waza-examples/sql waza-examples/postgres", "config:\n", "  isolation: {network: NETWORK}\n", 2, exitOK, exploreServices},
		{"llm", inventory, "config:\n", "  isolation: {network: NETWORK}\n", 2, exitOK, exploreLLM},
		{"injection", npmServers, "  isolation:\n", "    network: NETWORK\n", 3, exitOK, exploreInjection},
		{"narration", inventory, "config:\n", "  isolation: {network: NETWORK}\n", 3, exitFailed, exploreNarration},
	}
}

func (e example) run(t *testing.T, waza, network string) {
	t.Helper()
	t.Parallel()
	p := newProject(t, "", strings.Fields(e.image)...)
	p.waza = waza
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/"+e.name)); err != nil {
		t.Fatal(err)
	}
	eval := p.read("eval.yaml")
	changed := strings.Replace(eval, e.where, e.where+strings.Replace(e.indent, "NETWORK", network, 1), 1)
	changed = strings.Replace(changed, "name: ", "name: "+p.name+"-", 1)
	if changed == eval {
		t.Fatalf("the eval has no line %q", e.where)
	}
	p.write("eval.yaml", changed)
	c := p.run(e.exit)
	if said := c.stdout.String(); !strings.Contains(said, "run directory: run") || strings.Contains(said, "fail") == (e.exit == exitOK) {
		t.Errorf("stdout: %s", said)
	}
	checkRecord(t, p, network)
	checkGuest(t, p)
	checkFrames(t, p, e.trials)
	e.explore(t, p)
	e.checkCassette(t, p, "eval.yaml", "cassette")
	checkRegrade(t, p, e.trials, e.exit)
}

// checkCassette checks that a cassette of the example has what its run shows, and plays the run in containers and
// alone: agents make the same calls, and graders come to the same verdicts. With -update the example gets
// the cassette.
func (e example) checkCassette(t *testing.T, p *project, eval, dir string) {
	t.Helper()
	p.start("record", "run", "-o", "recorded").wait(exitOK)
	if *golden.Update {
		made, err := cassette.Read(p.path("recorded"))
		if err == nil {
			err = errors.Join(made.Write(p.path(dir)), made.Write("../../examples/"+e.name+"/"+dir))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(p.lasting(dir), p.lasting("recorded")); diff != "" {
		t.Errorf("examples/%s/%s (-want +recorded), updated with -update:\n%s", e.name, dir, diff)
	}
	p.start("run", eval, "--isolate", "--cassette", dir, "--run-dir", "played").wait(e.exit)
	runs := []string{"played"}
	if e.playsAlone(p) {
		p.playAlone(eval, dir, e.exit)
		runs = append(runs, "alone")
	}
	for _, run := range runs {
		p.trialsOf(run, e.trials)
		runtest.CheckPlayed(t, p.path("run"), p.path(run))
	}
}

// hashes matches what a scripted model and a recording make of what was said, dates too: ids and digests.
var hashes = regexp.MustCompile(`"?\b[0-9a-f]{64}\b"?|"?\b[0-9a-f]{12}\b"?|_[0-9a-f]{12}\b`)

// lasting returns what no two recordings of the same calls differ in, by the names of files.
func (p *project) lasting(cassette string) map[string]string {
	p.t.Helper()
	all := p.tree(cassette)
	for name, content := range all {
		all[name] = hashes.ReplaceAllString(runtest.Dates.ReplaceAllString(content, ""), "")
	}
	return all
}

// playsAlone reports whether the example can do without isolation.
func (e example) playsAlone(p *project) bool {
	return !strings.Contains(p.read("eval.yaml"), "canaries:") // which are put into files of servers
}

// playAlone plays a cassette to the run directory alone, without isolation, servers, variables and any network but
// loopback.
func (p *project) playAlone(eval, cassette string, exit int) {
	p.t.Helper()
	alone := runtest.Alone(p.waza, "run", eval, "--no-isolate", "--cassette", cassette, "--run-dir", "alone")
	p.startProgram(alone[0], alone[1:]...).wait(exit)
}

// trialsOf returns the trials of a run as TASK/N, and checks how many there are.
func (p *project) trialsOf(run string, want int) (all []string) {
	p.t.Helper()
	dirs, err := runner.Trials(p.path(run))
	if err != nil || len(dirs) != want {
		p.t.Fatalf("%d trials, %v; want %d", len(dirs), err, want)
	}
	for _, dir := range dirs {
		trial, err := filepath.Rel(p.path(run, "trials"), string(dir))
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, trial)
	}
	return all
}

// Each example plays from its own cassette where there is nothing else: no engine, image, key or network.
func TestCassettesOfExamples(t *testing.T) {
	t.Parallel()
	for _, e := range append(examples(), browser) {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			p := unpackProject(t, "")
			if err := os.CopyFS(p.dir, os.DirFS("../../examples/"+e.name)); err != nil {
				t.Fatal(err)
			}
			if !e.playsAlone(p) {
				t.Skip("it needs isolation; TestExamples plays it")
			}
			p.playAlone("eval.yaml", "cassette", e.exit)
			for _, trial := range p.trialsOf("alone", e.trials) {
				for frame, err := range evidence.Dir(p.path("alone", "trials", trial)).Frames() {
					if err != nil || frame.Dir != evidence.ToServer && frame.Side != evidence.SideAgent && !frame.Played {
						t.Errorf("%s: frame %d was not played, %v", trial, frame.Seq, err)
					}
				}
			}
		})
	}
}

func checkRecord(t *testing.T, p *project, network string) {
	t.Helper()
	r := p.record()
	if !r.Isolated || r.Network != network || r.Interrupted || r.Ended.Before(r.Started) || len(r.Engine) == 0 || len(r.Images) < 2 {
		t.Errorf("run.json: %+v", r)
	}
	if g := r.Guarantees; g == nil || g.Backend != "docker" || g.Network != network || len(g.Enforced) == 0 {
		t.Errorf("guarantees %+v", g)
	}
	files := r.Files
	if err := r.WriteDigests(p.path("run")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, p.record().Files); diff != "" || len(files) == 0 {
		t.Errorf("digests of %d files (-written +found):\n%s", len(files), diff)
	}
}

// maxGuest is how large the embedded guest may be.
const maxGuest = 12_000_000

// checkGuest checks that the containers ran the small executable that is embedded in waza, or the
// whole one if there is none.
func checkGuest(t *testing.T, p *project) {
	t.Helper()
	info, err := buildinfo.ReadFile(p.waza)
	if err != nil {
		t.Fatal(err)
	}
	own, err := files.Digest(p.waza)
	if err != nil {
		t.Fatal(err)
	}
	embeds := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-tags" && s.Value == "guest" })
	guest := p.record().Engine["guest"]
	if (guest == own) == embeds {
		t.Errorf("the guest is %s and waza, which embeds one: %t, is %s", guest, embeds, own)
	}
	image, err := dockertest.Engine(t).ImageInspect(t.Context(), "waza-guest:"+guest[:16])
	if err != nil {
		t.Fatal(err)
	}
	if embeds && image.Size > maxGuest {
		t.Errorf("the guest has %d bytes, and may have %d", image.Size, maxGuest)
	}
}

// checkFrames checks that frames are numbered from 1 without gaps, and that what a
// frame says it holds is there.
func checkFrames(t *testing.T, p *project, trials int) {
	t.Helper()
	dirs, err := runner.Trials(p.path("run"))
	if err != nil || len(dirs) != trials {
		t.Fatalf("%d trials, %v; want %d", len(dirs), err, trials)
	}
	for _, dir := range dirs {
		var last int64
		for frame, err := range dir.Frames() {
			if err != nil {
				t.Fatal(err)
			}
			if frame.Seq != last+1 || frame.Server == "" || frame.Conn == "" || len(frame.Raw) == 0 || frame.Truncated > 0 {
				t.Errorf("%s: frame after %d: %+v", dir, last, frame)
			}
			last = frame.Seq
		}
		if last < 4 { // at least one call and how the session began
			t.Errorf("%s: %d frames", dir, last)
		}
	}
}

func exploreInventory(t *testing.T, p *project) {
	t.Helper()
	all := p.results()
	if s := all.Summary; s.TotalTests != 3 || s.Succeeded != 3 || s.SuccessRate != 1 || s.Failed+s.Errors+s.Skipped != 0 {
		t.Errorf("summary %+v", s)
	}
	if m := all.Metrics["task_completion"]; !m.Passed || m.Value != 1 {
		t.Errorf("metric %+v", m)
	}
	price := p.runOf("price")
	d := price.SessionDigest
	if d.MCPToolCalls != 1 || !cmp.Equal(d.MCPServersUsed, []string{"inventory"}) || !cmp.Equal(d.ToolsUsed, []string{"list_tools", "inventory-find_item"}) {
		t.Errorf("session digest %+v", d)
	}
	if !strings.Contains(price.FinalOutput, "15276 cents") {
		t.Errorf("final output %q", price.FinalOutput)
	}
	captured, err := evidence.Dir(p.path("run", "trials", "price", "1")).Calls()
	if err != nil || len(captured) != 1 || captured[0].Known == nil || !*captured[0].Known || captured[0].Valid == nil || !*captured[0].Valid {
		t.Errorf("held against what the server lists, calls are %+v, %v", captured, err)
	}
	if len(all.Servers) != 1 || all.Servers[0].Name != "inventory" {
		t.Errorf("servers %+v", all.Servers)
	}
	var calls []results.ToolEvent
	for _, event := range p.runOf("report").ToolEvents {
		if event.MCPServer != "" {
			calls = append(calls, event)
		}
	}
	if len(calls) != 2 {
		t.Fatalf("%d calls in the report, want 2: %+v", len(calls), calls)
	}
	if e := calls[1]; e.ToolName != "inventory-list_items" || e.Source != "mcp:inventory" || !e.Success || e.Outcome != evidence.OutcomeOK || !sameJSON(t, e.Args, `{"warehouse":"harbour"}`) {
		t.Errorf("second call %+v with %s", e, e.Args)
	}
	var result struct{ Content []struct{ Type, Text string } }
	if err := json.Unmarshal(calls[1].Result, &result); err != nil || len(result.Content) == 0 || !strings.Contains(result.Content[0].Text, "harbour") {
		t.Errorf("second call's result %s, %v", calls[1].Result, err)
	}
}

func exploreRealServers(t *testing.T, p *project) {
	t.Helper()
	var refused *results.ToolEvent
	for _, event := range p.runOf("error").ToolEvents {
		if event.MCPServer == "files" {
			refused = &event
		}
	}
	if refused == nil || refused.Success || refused.Outcome != evidence.OutcomeToolError || !strings.Contains(refused.Error, "denied") {
		t.Errorf("the refused call is %+v", refused)
	}
	edit := p.runOf("files").ToolEvents[0]
	if !sameJSON(t, edit.Args, `{"path":"/data/notes.txt","edits":[{"oldText":"opens at six","newText":"opens at five"}]}`) {
		t.Errorf("whole arguments are %s", edit.Args)
	}
	if !strings.Contains(p.read("run", "trials", "everything", "1", "servers", "everything.stderr"), "STDIO") {
		t.Error("the server's stderr is not kept")
	}
	if !p.exists("run", "trials", "files", "1", "before.tar") || !p.exists("run", "trials", "files", "1", "workspace.tar") {
		t.Error("the workspace is not kept, before and after")
	}
	for _, s := range p.results().Servers {
		checkCalm(t, s)
	}
}

// checkCalm checks that a server did nothing but its work, and was watched.
func checkCalm(t *testing.T, s results.ServerCard) {
	t.Helper()
	c := s.Activity
	if c == nil || len(c.Unseen) > 0 || len(c.Connections) > 0 || len(c.Names) > 0 || len(c.Programs) == 0 || c.MemoryPeak == nil || c.CPUSeconds == nil {
		t.Errorf("server %s: %+v", s.Name, c)
		return
	}
	for _, program := range c.Programs {
		if name := filepath.Base(program.Path); name != "node" && name != "memory" && !strings.HasPrefix(name, "mcp-server-") {
			t.Errorf("server %s started %+v", s.Name, program)
		}
	}
}

func exploreServices(t *testing.T, p *project) {
	t.Helper()
	if out := p.runOf("readings").FinalOutput; !strings.Contains(out, "the mean 4.367 m") {
		t.Errorf("final output %q", out)
	}
	for _, task := range []string{"readings", "fresh"} {
		if said := p.read("run", "trials", task, "1", "servers", "sql.db.stderr"); !strings.Contains(said, "ready to accept connections") {
			t.Errorf("%s: the database says %q", task, said)
		}
		if events := p.read("run", "trials", task, "1", "events.jsonl"); strings.Contains(events, "service_exit") {
			t.Errorf("%s: the service's end with its sandbox is told: %s", task, events)
		}
	}
	if images := p.record().Images; images["waza-examples/postgres"].ID == "" {
		t.Errorf("the service's image is not among %v", images)
	}
}

// The page was shown by a browser that ran its script, and that reached nothing but the trial's site.
func exploreBrowser(t *testing.T, p *project) {
	t.Helper()
	if out := p.runOf("last-boat").FinalOutput; !strings.Contains(out, "- Page URL: http://site:8080/island.html") {
		t.Errorf("final output %q", out)
	}
	c := p.results().Servers[0].Activity
	if c == nil || len(c.Unseen) > 0 {
		t.Fatalf("the server did %+v", c)
	}
	for _, to := range c.Connections {
		if to.Network == "ip" && !strings.HasPrefix(to.Address, "127.") {
			t.Errorf("the server connected to %+v", to)
		}
	}
	if !slices.ContainsFunc(c.Programs, func(p evidence.Program) bool { return strings.HasSuffix(p.Path, "/chromium") }) {
		t.Errorf("the server started %+v", c.Programs)
	}
	if missing := strings.Join(p.record().Guarantees.Missing, "; "); strings.Contains(missing, "browser") {
		t.Errorf("missing: %s", missing)
	}
}

// Both agents whose account is not what crossed the wire are caught, and the honest one
// is not.
func exploreNarration(t *testing.T, p *project) {
	t.Helper()
	for task, want := range map[string]struct {
		class              evidence.Class
		unbacked, untold   int
		sentence, feedback string
	}{
		"honest":  {evidence.ClassPass, 0, 0, "", ""},
		"invents": {evidence.ClassFail, 1, 0, "1 call that was never made: mcp__inventory__reserve_item {\"quantity\":3,\"sku\":\"MTR-2200\"}", "no such call was made"},
		"hides":   {evidence.ClassFail, 0, 1, "1 call that it made: call 2, inventory/reserve_item {\"quantity\":10,\"sku\":\"BRG-6204\"}, ok", "does not report call 2"},
	} {
		r := p.runOf(task)
		n := r.Narration
		if n == nil || r.Outcome != want.class || len(n.Unbacked) != want.unbacked || len(n.Unreported) != want.untold || len(n.Differs)+len(n.Ambiguous) != 0 {
			t.Errorf("%s: %s, %+v", task, r.Outcome, n)
			continue
		}
		if all := strings.Join(n.Sentences, "\n"); !strings.Contains(all, want.sentence) || all == "" != (want.sentence == "") {
			t.Errorf("%s: %q", task, all)
		}
		if feedback := r.Validations["as_told"].Feedback; !strings.Contains(feedback, want.feedback) {
			t.Errorf("%s: feedback %q", task, feedback)
		}
	}
}

// The example of a remote server runs with one on the host's loopback. Its token
// is in no file of the run.
func TestRemoteExample(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/real-servers")); err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-nobody"
	port := serveGoMemory(t, p, token)
	p.env = append(p.env, "REMOTE_PORT="+port, "REMOTE_TOKEN="+token)
	p.start("run", "--isolate", "--run-dir", "run", "remote.yaml").wait(exitOK)
	checkFrames(t, p, 1)
	example{name: "real-servers", trials: 1, exit: exitOK}.checkCassette(t, p, "remote.yaml", "remote/cassette")
	var egress []string
	events, err := p.trial("remote").Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "egress" {
			egress = append(egress, e.Message)
		}
	}
	if diff := cmp.Diff([]string{"the runner connects to http://127.0.0.1:" + port}, egress); diff != "" {
		t.Errorf("what left (-want +got):\n%s", diff)
	}
	err = filepath.WalkDir(p.path("run"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), token) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serveGoMemory serves the Go SDK's memory server on the host's loopback, behind
// a door that wants a token, and returns the door's port.
func serveGoMemory(t *testing.T, p *project, token string) string {
	t.Helper()
	build := exec.Command("go", "build", "-o", p.path("go-memory"), "github.com/modelcontextprotocol/go-sdk/examples/server/memory")
	build.Dir = "../../examples/real-servers/images/go-memory"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := freeAddress(t)
	server := exec.Command(p.path("go-memory"), "-http", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	dockertest.Await(t, time.Minute, "the server listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	return door.URL[strings.LastIndex(door.URL, ":")+1:]
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func sameJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		return false
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(g, w)
}

// checkRegrade checks that grading again, where no engine can answer, repeats
// every byte of verdicts and results.
func checkRegrade(t *testing.T, p *project, trials, exit int) {
	t.Helper()
	graded := func() map[string]string {
		all := map[string]string{"results.json": p.read("run", "results.json")}
		dirs, err := runner.Trials(p.path("run"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			verdicts, err := os.ReadFile(string(dir) + "/verdicts.json")
			if err != nil {
				t.Fatal(err)
			}
			all[string(dir)] = string(verdicts)
		}
		return all
	}
	p.env = append(p.env, "DOCKER_HOST=unix:///nonexistent/docker.sock")
	before := graded()
	if len(before) != trials+1 {
		t.Fatalf("%d graded files, want %d", len(before), trials+1)
	}
	for range 2 {
		p.start("grade", "run").wait(exit)
		if diff := cmp.Diff(before, graded()); diff != "" {
			t.Fatalf("grading again (-before +after):\n%s", diff)
		}
	}
}
