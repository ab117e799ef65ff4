package results

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// ServerReport is what became of a server in a trial.
type ServerReport struct {
	Name   string `json:"name"`
	Mocked bool   `json:"mocked,omitempty"` // it is one of the eval's mcp_mocks
	Tally
	// Unmatched are calls that no response of a mock was for.
	Unmatched []string `json:"unmatched_calls,omitempty"`
	Lost      int      `json:"lost,omitempty"` // calls that it did not answer, because it or the way to it ended
	Ends      []string `json:"ends,omitempty"` // of its programs, its services and its container, where nobody asked for them
	// RugPulls are the tools that it described in another way after it had listed them.
	RugPulls []string `json:"rug_pulls,omitempty"`
	// Unpinned says where it was not as it is pinned.
	Unpinned []string `json:"unpinned,omitempty"`
	Catalog  *Listed  `json:"catalog,omitempty"` // nil where it listed no tools on record
	Marks    *Marks   `json:"marks,omitempty"`   // of that catalog; nil where there are none and all of it was looked at
	Conduct  *Conduct `json:"conduct,omitempty"` // nil where nothing on record tells of it
}

// OfServers says whether an event tells what became of a server.
func OfServers(e evidence.Event) bool {
	switch e.Kind {
	case "server_exit", "service_exit", "container_exit", "oom", "pin", "pids", "disk", "limit", "dns", "egress", "mock":
		return true
	}
	return false
}

// maxEnds is how many ends of one server are told, and how many rug pulls.
const maxEnds = 8

// serverReports says of each server of a trial how it fared.
func serverReports(trial Trial) []ServerReport {
	var reports []ServerReport
	for _, server := range trial.Servers {
		calls := callsOf(trial, server.Name)
		r := ServerReport{Name: server.Name, Mocked: server.Mocked, Unmatched: messages(trial, server.Name, "mock"), Tally: tally(calls), Ends: ends(trial, server.Name), Unpinned: messages(trial, server.Name, "pin")}
		r.Lost = r.Outcomes[evidence.OutcomeTransportError]
		for _, catalog := range trial.Catalogs {
			if catalog.Server == server.Name {
				r.Catalog, r.RugPulls = listed(catalog), rugPulls(catalog)
			}
		}
		r.Conduct = conduct(trial, server.Name)
		reports = append(reports, r)
	}
	return reports
}

func callsOf(trial Trial, server string) (calls []evidence.Call) {
	for _, call := range trial.Calls {
		if call.Server == server {
			calls = append(calls, call)
		}
	}
	return calls
}

// messages are those of a server's events of a kind.
func messages(trial Trial, server, kind string) (told []string) {
	for _, e := range trial.Events {
		if e.Kind == kind && e.Where == server && len(told) < maxEnds {
			told = append(told, e.Message)
		}
	}
	return told
}

func rugPulls(catalog evidence.Catalog) []string {
	return text.Some(catalog.RugPulls(), maxEnds, evidence.Change.String)
}

func ends(trial Trial, server string) []string {
	var told []string
	more := 0
	memory := slices.ContainsFunc(trial.Events, func(e evidence.Event) bool { return e.Kind == "oom" && e.Where == server })
	for _, e := range trial.Events {
		end := endOf(trial, server, e, memory)
		switch {
		case end == "" || slices.Contains(told, end):
		case len(told) == maxEnds:
			more++
		default:
			told = append(told, end)
		}
	}
	if more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return told
}

// endOf tells an event that is the end of something of a server's; empty for others.
func endOf(trial Trial, server string, e evidence.Event, memory bool) string {
	service, ofService := strings.CutPrefix(e.Where, server+"/")
	switch {
	case e.Kind == "server_exit" && e.Where == server && e.Data["asked"] != true:
		text := "its process " + e.Message
		if memory && e.Data["signal"] == "SIGKILL" {
			text += " (out of memory)"
		}
		conn, _ := e.Data["conn"].(string)
		return text + during(trial.Calls, server, conn)
	case e.Kind == "service_exit" && ofService:
		return fmt.Sprintf("its service %q %s", service, e.Message)
	case e.Kind == "container_exit" && e.Where == server:
		return e.Message
	case e.Kind == "container_exit" && ofService:
		return fmt.Sprintf("its service %q: %s", service, e.Message)
	}
	return ""
}

// during names the calls that an end left without an answer: those of a conversation,
// or of the server's all.
func during(calls []evidence.Call, server, conn string) string {
	var lost []string
	for _, call := range calls {
		if call.Server == server && call.Outcome == evidence.OutcomeTransportError && (conn == "" || call.Conn == conn) {
			lost = append(lost, strconv.Itoa(call.Seq))
		}
	}
	switch len(lost) {
	case 0:
		return ""
	case 1:
		return " during call " + lost[0]
	}
	return " during calls " + strings.Join(lost[:min(len(lost), maxEnds)], ", ")
}
