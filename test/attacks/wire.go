package attacks

import (
	"encoding/json"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// looseServer returns a server that parses requests as their sender wants.
func (g Ground) looseServer() *mcpconfig.Server {
	return &mcpconfig.Server{
		Image: g.Image, Command: program, Args: []string{"serve", "loose"}, Type: "http", Port: part.Port,
		Timeout: 45_000, Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"},
	}
}

// ambiguousAttacks returns the attacks by calls that are recorded as one call and executed
// as another.
func ambiguousAttacks() []Attack {
	all := []Attack{
		{Attack: entry(part.Ambiguous, "call a tool with a duplicate name key, against a server that uses the first", probe.AllRecorded, oneMeaning)},
		{Attack: entry("call-method-twice", "disguise a call as a ping with a duplicate method key", probe.AllRecorded, oneMeaning)},
		{Attack: entry("call-argument-twice", "call a tool with a duplicate argument", probe.AllRecorded, oneMeaning)},
		{Attack: entry("call-name-in-other-case", "call a tool with a key in different case, against a server that ignores case", probe.AllRecorded, foldedKeys)},
		{Attack: entry("call-name-ends-at-nul", "call a tool with a NUL in a key, against a server that ends strings there", probe.AllRecorded, foldedKeys)},
		{Attack: entry("call-name-not-utf8", "call a tool with a key of invalid UTF-8, against a server that drops the invalid bytes", probe.AllRecorded, oneMeaning)},
	}
	names := make([]string, len(all))
	for i := range all {
		a := &all[i]
		names[i] = a.Name
		a.As, a.Won, a.Tried = Agent, misjudged, HasReport
		if i > 0 {
			a.In = part.Ambiguous
		}
	}
	all[0].Task = func(g Ground, t *eval.Task) {
		t.MCPServers = map[string]*mcpconfig.Server{}
		for _, name := range names {
			t.MCPServers[name] = g.looseServer()
			t.Graders = append(t.Graders, eval.Grader{Type: "mcp_compliance", Name: name, Config: forbids(name)})
		}
	}
	return all
}

// forbids returns the config of a grader that passes if no call is recorded that matches
// what the server executes.
func forbids(server string) json.RawMessage {
	config := map[string]any{"server": server, "reject_tools": []string{part.Kept}}
	if server == "call-argument-twice" {
		config["match"] = "exact"
		config["expect_tools_used"] = []any{map[string]any{
			"tool": part.Shown, "args": map[string]any{"values": map[string]any{"path": part.Safe}},
		}}
	}
	data, _ := json.Marshal(config) // plain data
	return data
}

// hidingAttacks returns the attacks that call a tool that is hidden from the agent.
func hidingAttacks() []Attack {
	all := []Attack{
		{Attack: entry(part.Hidden, "call a tool that is hidden from the agent", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-name-twice", "call a hidden tool with a duplicate name key", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-other-case", "call a hidden tool with a key in different case", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-ends-at-nul", "call a hidden tool with a NUL after the method", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-not-utf8", "call a hidden tool with a key of invalid UTF-8", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-in-batch", "call a hidden tool in a batch", probe.AllRecorded, filtered)},
		{Attack: entry("hidden-by-header", "call a hidden tool with a header, against a server that follows the header", probe.AllRecorded, filteredHeaders)},
		{Attack: entry("hidden-by-charset", "call a hidden tool in UTF-7, against a server that follows the charset", probe.AllRecorded, oneCharset)},
		{Attack: entry("hidden-by-encoding", "call a hidden tool in a compressed body", probe.AllRecorded, noEncoding)},
	}
	for i := range all {
		a := &all[i]
		a.As, a.Won, a.Tried = Agent, calledHidden, HasReport
		if i > 0 {
			a.In = part.Hidden
		}
	}
	all[0].Task = func(g Ground, t *eval.Task) {
		server := g.looseServer()
		server.Tools = []string{part.Shown}
		t.MCPServers = map[string]*mcpconfig.Server{part.Filtered: server}
	}
	return all
}

// routingAttacks returns the attacks that address one server as another, and request
// smuggling.
func routingAttacks() []Attack {
	all := []Attack{
		{Attack: entry(part.Routing, "have a call to one server recorded as a call to another, with malformed Host headers", probe.AllRecorded, recorded)},
		{Attack: entry("two-hosts", "have a call recorded for another server, with two Host headers", probe.AllRecorded, goHTTP)},
		{Attack: entry("absolute-target", "have a call recorded for another server, with another host in the request target", probe.AllRecorded, recorded)},
		{Attack: entry("model-path-climbs", "reach a server by path traversal out of a model provider's URL", probe.AllRecorded, noModel)},
		{Attack: entry("model-other-provider", "reach a model provider that is not declared", probe.AllRecorded, noModel)},
		{Attack: entry("model-absolute", "use the model gateway as an open proxy", probe.AllRecorded, noModel)},
		{Attack: entry("endless-comments", "keep the runner busy with endless comments in an event stream", probe.AllRecorded, countedFrames), Won: believed},
		{Attack: entry("smuggle-chunk-extensions", "send a megabyte of chunk extensions before a call", probe.AllRecorded, goHTTP)},
	}
	for _, hiding := range [][2]string{
		{"smuggle-cl-te", "Content-Length before Transfer-Encoding"}, {"smuggle-te-cl", "Transfer-Encoding before Content-Length"},
		{"smuggle-two-lengths", "two Content-Lengths"}, {"smuggle-te-te", "two Transfer-Encodings"},
		{"smuggle-te-space", "a space before a colon"}, {"smuggle-obs-fold", "a folded header"},
		{"smuggle-nul-header", "a NUL in a header"}, {"smuggle-bare-cr", "a CR in a header"},
		{"smuggle-chunk-huge", "a chunk of 2^68 bytes"}, {"smuggle-chunk-negative", "a chunk of -1 bytes"},
		{"smuggle-chunk-odd", "a chunk's size with 0x"}, {"smuggle-headers", "10,000 headers"}, {"smuggle-long-header", "a header of a megabyte"},
	} {
		all = append(all, Attack{Attack: entry(hiding[0], "smuggle a call in a request with "+hiding[1], probe.AllRecorded, goHTTP)})
	}
	for i := range all {
		a := &all[i]
		a.As, a.Tried = Agent, HasReport
		if a.Won == nil {
			a.Won = unseen
		}
		if i > 0 {
			a.In = part.Routing
		}
	}
	twoServers := func(g Ground, t *eval.Task) {
		t.MCPServers = map[string]*mcpconfig.Server{part.Left: g.looseServer(), part.Right: g.looseServer()}
	}
	all[0].Task = twoServers
	return append(all,
		Attack{
			Attack: entry("slowloris", "hold a hundred connections by sending one header byte per second", probe.OthersGoOn, headersInTime),
			As:     Agent, Won: SaidSo, Tried: HasReport, Task: twoServers,
		},
		Attack{
			Attack: entry("half-open", "hold three hundred open connections", probe.OthersGoOn, fewConnections),
			As:     Agent, Won: SaidSo, Tried: HasReport, Task: twoServers,
		},
	)
}

// forgingAttacks returns the attacks by forged responses, and by lines that have broken
// parsers.
func forgingAttacks() []Attack {
	won := map[string]Attack{
		part.Forging:          {Attack: probe.Attack{Goal: "answer with an id of a different type", Without: typedIDs}, Won: believed},
		"answer-twice":        {Attack: probe.Attack{Goal: "answer a second time, differently", Without: firstAnswer}, Won: overwritten},
		"answer-ahead":        {Attack: probe.Attack{Goal: "answer a request before it is sent", Without: inOrder}, Won: answeredEarly},
		"ask-with-agents-id":  {Attack: probe.Attack{Goal: "have the agent answer its own call, by sending it a request with the same id", Without: agentsAnswers}, Won: believed},
		"answer-after-cancel": {Attack: probe.Attack{Goal: "answer a cancelled request", Without: cancelled}, Won: believed},
		"never-answer":        {Attack: probe.Attack{Goal: "never answer", Without: timed}, Won: untimed},
		part.OtherSession:     {Attack: probe.Attack{Goal: "answer a request that is pending in another session of its server", Without: conversationsApart}, Won: believed},
		part.OtherServer:      {Attack: probe.Attack{Goal: "answer a request that is pending at another server", Without: conversationsApart}, Won: believed},
		"changing-tools":      {Attack: probe.Attack{Goal: "change a tool's description after listing it", Without: compared}, Won: unlisted},
		"long-line":           {Attack: probe.Attack{Goal: "write a line of a gigabyte", Without: shortLines}, Won: unstopped},
		"small-frames":        {Attack: probe.Attack{Goal: "write ten million small messages", Without: countedFrames}, Won: unstopped},
		"noise-lines":         {Attack: probe.Attack{Goal: "write ten million lines that are not messages", Without: countedFrames}, Won: unstopped},
	}
	lines := map[string]string{
		"version-future": "negotiate a future protocol version", "version-old": "negotiate a protocol version that never existed",
		"version-empty": "negotiate no protocol version", "version-array": "negotiate a list of protocol versions", "version-stateless": "negotiate a version without sessions within a session",
		"json-deep": "send JSON nested 100,000 deep", "json-huge-numbers": "send numbers of a million digits and 1e999999999",
		"json-not-utf8": "send invalid UTF-8", "json-lone-surrogates": "send lone surrogates", "json-nul": "send NULs",
		"json-byte-order-mark": "send a byte order mark first", "json-utf16": "send UTF-16", "json-keys-twice": "send every key twice",
		"batch-empty": "send an empty batch", "batch-nested": "send a nested batch", "batch-huge": "send a batch of 100,001 messages",
		"stream-lines": "end an event early by line breaks in a message",
	}
	var all []Attack
	for _, name := range part.Forgeries() {
		a := won[name]
		if tries, ok := lines[name]; ok {
			a = Attack{Attack: probe.Attack{Goal: tries + ", so that a call is not recorded", Without: recorded}, Won: lost}
		}
		a.Name, a.As, a.Promise, a.Tried = name, Both, probe.FairVerdict, HasReport
		if name != part.Forging {
			a.In = part.Forging
		}
		all = append(all, a)
	}
	all[0].Task = func(g Ground, t *eval.Task) {
		forger := func(milliseconds float64) *mcpconfig.Server {
			return &mcpconfig.Server{
				Image: g.Image, Command: program, Args: []string{"server", part.Forging}, Timeout: milliseconds, MaxMessage: "8m", MaxFrames: 5000,
				Limits: mcpconfig.Limits{Memory: "256m", Disk: "64m"},
			}
		}
		t.MCPServers = map[string]*mcpconfig.Server{evil: forger(4000), part.Patient: forger(60_000)}
		for _, flood := range part.Floods() {
			t.MCPServers[flood] = forger(4000)
		}
	}
	return all
}
