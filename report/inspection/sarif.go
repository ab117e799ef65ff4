package inspection

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/report/view"
)

// sarifLog is a SARIF 2.1.0 document, with only the parts that are used here.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
	ColumnKind  string            `json:"columnKind"`
}

type sarifTool struct {
	Driver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	} `json:"driver"`
}

type sarifRule struct {
	ID      string         `json:"id"`
	Short   sarifMessage   `json:"shortDescription"`
	Default sarifLevel     `json:"defaultConfiguration"`
	Help    sarifMessage   `json:"help"`
	Tags    map[string]any `json:"properties"`
}

type sarifLevel struct {
	Level string `json:"level"` // error or warning
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	StartTime     string              `json:"startTimeUtc"`
	EndTime       string              `json:"endTimeUtc,omitempty"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string       `json:"level"`
	Message sarifMessage `json:"message"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	Level        string            `json:"level"`
	Message      sarifMessage      `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine int `json:"startLine"`
		} `json:"region"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations"`
}

type sarifLogical struct {
	FullName string `json:"fullyQualifiedName"`
}

// Rules about servers' actions and about later changes of their lists. Rules about findings in texts are
// named by the kind of finding.
const (
	rulePin   = "pin"
	ruleDrift = "drift"
	ruleEnded = "ended"
	ruleNoise = "stdout"
)

// rule describes a rule and its level.
type rule struct{ id, level, about string }

// rules returns all rules. Findings in texts are only warnings, since honest servers have some too.
func rules() []rule {
	return []rule{
		{string(finding.Overrides), "warning", "A text overrides instructions of the model."},
		{string(finding.Secrecy), "warning", "A text asks to keep something from the user."},
		{string(finding.Orders), "warning", "A text orders the model to do something besides the task."},
		{string(finding.Poses), "warning", "A text imitates a message from someone else."},
		{string(finding.Files), "warning", "A text names a file that commonly holds secrets."},
		{string(finding.Sends), "warning", "A text asks to send something away."},
		{string(finding.Others), "warning", "A text names a tool of another server."},
		{string(finding.Steers), "warning", "A text discourages the use of other tools."},
		{string(finding.Hidden), "warning", "A text has invisible characters."},
		{string(finding.Terminal), "warning", "A text controls a terminal."},
		{string(finding.Pushed), "warning", "A text is moved out of view by white space."},
		{string(finding.Comment), "warning", "A text is not shown where it is rendered."},
		{string(finding.Lookalike), "warning", "A word has letters of several alphabets."},
		{string(finding.Encoded), "warning", "A text is encoded."},
		{string(finding.Duplicate), "warning", "A list has an entry several times."},
		{rulePin, "error", "A server does not list what waza.lock has pinned."},
		{ruleDrift, "error", "A server listed something else a moment later."},
		{ruleEnded, "warning", "A server ended before it was asked to."},
		{ruleNoise, "warning", "A server printed to stdout, which is for messages alone."},
		{"secrets", "error", "A server wrote a secret that it was given."},
		{"connections", "warning", "A server tried to connect to an address outside."},
		{"names", "warning", "A server asked for a name that has no answer."},
		{"egress", "warning", "A server was refused egress to a host."},
		{"limits", "warning", "A server ran into a limit."},
	}
}

// SARIF returns the findings about the servers as a SARIF 2.1.0 document. It contains no
// verdict: no results mean only that nothing was found.
func (r Report) SARIF() ([]byte, error) {
	ran := sarifInvocation{Successful: true}
	var all []sarifResult
	for _, s := range r.Servers {
		if s.Failed != "" {
			ran.Successful = false
			ran.Notifications = append(ran.Notifications, sarifNotification{"error", message(fmt.Sprintf("server %q was not inspected: %s", s.Name, s.Failed))})
		}
		all = append(all, r.resultsOf(s)...)
	}
	return r.sarif("waza inspect", ran, all)
}

// maxResults is the maximum number of results in a run; GitHub shows no more.
const maxResults = 5000

// SARIF returns the findings about the servers of a run, over its trials, like
// [Report.SARIF] for an inspection.
func SARIF(run view.Run) ([]byte, error) {
	r := Report{Waza: run.Waza, Source: run.Eval, Started: run.Started, Ended: run.Ended}
	var all []sarifResult
	for _, card := range run.Results.Servers {
		s := Server{Name: card.Name, Activity: Activity{Did: card.Activity}}
		if card.Findings != nil {
			s.Findings.Places = card.Findings.Places
		}
		all = append(all, r.resultsOf(s)...)
	}
	met := map[string]bool{}
	for _, task := range run.Results.Tasks {
		for _, trial := range task.Runs {
			for _, event := range view.Events(trial) {
				rule, known := eventRules[event.Kind]
				if !known {
					continue
				}
				one := r.result(event.Server, rule, "", event.Line())
				if key := one.Fingerprints[fingerprint]; !met[key] {
					met[key], all = true, append(all, one)
				}
			}
		}
	}
	return r.sarif("waza run", sarifInvocation{Successful: !r.Ended.IsZero() && !run.Interrupted}, all[:min(len(all), maxResults)])
}

// eventRules are the rules about events of servers in a trial. There is none for a mock that does not answer,
// since that says nothing about a server.
var eventRules = map[view.EventKind]string{view.Unpinned: rulePin, view.RugPull: ruleDrift, view.Ended: ruleEnded}

// sarif returns the document for a single run of a tool.
func (r Report) sarif(tool string, ran sarifInvocation, all []sarifResult) ([]byte, error) {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: append([]sarifResult{}, all...)}
	run.Tool.Driver.Name, run.Tool.Driver.Version = tool, r.Waza
	run.Tool.Driver.InformationURI = "https://github.com/waza-isolate/waza"
	for _, u := range rules() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: u.id, Short: sarifMessage{u.about}, Default: sarifLevel{u.level},
			Help: sarifMessage{u.about + " docs/inspect.md explains it."}, Tags: map[string]any{"tags": []string{"security", "mcp"}},
		})
	}
	ran.StartTime = r.Started.UTC().Format(sarifTime)
	if !r.Ended.IsZero() {
		ran.EndTime = r.Ended.UTC().Format(sarifTime)
	}
	run.Invocations = []sarifInvocation{ran}
	return evidence.MarshalIndent(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// fingerprint is the name of the fingerprints of results.
const fingerprint = "waza/v1"

const sarifTime = "2006-01-02T15:04:05.000Z"

// resultsOf returns the results for one server.
func (r Report) resultsOf(s Server) (all []sarifResult) {
	add := func(rule, where, line string) { all = append(all, r.result(s.Name, rule, where, line)) }
	addEvent := func(rule, where, format string, args ...any) {
		add(rule, where, view.Event{Server: s.Name, Text: fmt.Sprintf(format, args...)}.Line())
	}
	addFindings := func(places []finding.Finding) {
		for _, f := range places {
			add(string(f.Kind), f.Of+"/"+f.Key, view.FindingLine(s.Name, f))
		}
	}
	addFindings(s.Findings.Places)
	for _, answer := range s.Answers {
		addFindings(answer.Findings.Places)
	}
	if s.Pin != nil {
		for _, d := range s.Pin.Differences {
			addEvent(rulePin, string(d.Kind)+"/"+d.Key, "differs from its pin: %s", d)
		}
	}
	for _, d := range s.Drift {
		addEvent(ruleDrift, string(d.Kind)+"/"+d.Key, "listed something else a moment later: %s", d)
	}
	if s.Ended != "" {
		addEvent(ruleEnded, "", "%s before it was asked to", s.Ended)
	}
	if s.Noise > 0 {
		addEvent(ruleNoise, "", "printed lines to stdout that are no messages")
	}
	for _, act := range view.Acts(s.Did) {
		if act.Notable {
			add(act.List, act.Which, act.Line(s.Name))
		}
	}
	return all
}

// result returns the result that a line about a server states under a rule.
func (r Report) result(server, id, where, line string) sarifResult {
	level := "warning"
	if i := slices.IndexFunc(rules(), func(u rule) bool { return u.id == id }); i >= 0 {
		level = rules()[i].level
	}
	said := message(line)
	sum := sha256.Sum256([]byte(strings.Join([]string{id, server, said.Text}, "\x00")))
	one := sarifResult{RuleID: id, Level: level, Message: said, Fingerprints: map[string]string{fingerprint: hex.EncodeToString(sum[:16])}}
	at := sarifLocation{Logical: []sarifLogical{{text.Line(server+"/"+where, maxSaid)}}}
	at.Physical.Artifact.URI, at.Physical.Region.StartLine = r.file(), 1
	one.Locations = []sarifLocation{at}
	return one
}

// file returns the file with the servers' configuration as a relative reference. Code
// scanning requires a file for every result, so results for a command line refer to a
// nonexistent file.
func (r Report) file() string {
	file := filepath.ToSlash(filepath.Clean(r.Source))
	if !filepath.IsLocal(file) || strings.HasPrefix(r.Source, "the command") {
		file = "command-line"
	}
	var out strings.Builder
	for _, c := range []byte(file) {
		if c > ' ' && c < 0x7F && !strings.ContainsRune("%#?:[]@!$&'()*+,;=\"<>\\^`{|}", rune(c)) {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// maxSaid is the maximum length of a message, in columns.
const maxSaid = 600

// unlinked escapes characters that start a link or a placeholder in a SARIF message.
var unlinked = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "{", "{{", "}", "}}")

// message returns a message with an untrusted text.
func message(said string) sarifMessage {
	return sarifMessage{unlinked.Replace(text.Line(said, maxSaid))}
}
