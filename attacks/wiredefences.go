package attacks

// Builds that defences against tricks of protocols are taken out in.
const (
	wireBuild   = "wire"   // what is made of messages
	unseenBuild = "unseen" // that there is a record
)

func oneMeaning() Defence {
	return Defence{Name: "a gap where a message can be read in two ways", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", `if why := m.doubt(f); why != "" {`, `if why := m.doubt(f); why == "never" {`,
	}}}
}

func foldedKeys() Defence {
	return Defence{Name: "a gap where a key may be taken for another", Build: wireBuild, Edits: []Edit{{
		"runner/capture/call.go", `ok && m.method == methodCallTool {`, `ok && m.method == "" {`,
	}}}
}

func filtered() Defence {
	return Defence{Name: "calls of hidden tools are refused", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/tools.go", "func (f toolFilter) hidden(raw []byte, env envelope) bool {\n\tif f == nil {",
		"func (f toolFilter) hidden(raw []byte, env envelope) bool {\n\tif f != nil || f == nil {",
	}}}
}

func filteredHeaders() Defence {
	return Defence{Name: "calls of hidden tools by headers are refused", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/tools.go", "if f == nil || len(env.messages) == 0 {", "if f == nil || len(env.messages) >= 0 {",
	}}}
}

func oneCharset() Defence {
	return Defence{Name: "requests are UTF-8", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/passage.go", "if isRecoded(r.Header) {", "if isRecoded(nil) {",
	}}}
}

func noEncoding() Defence {
	return Defence{Name: "requests are not compressed", Build: wireBuild, Edits: []Edit{
		{"runner/mcpproxy/passage.go", "if isEncoded(r.Header) {", "if isEncoded(nil) {"},
		{"runner/mcpproxy/passage.go", "if s.tools != nil {\n\t\treturn s.understand(raw)", "if s.tools != nil && s.tools == nil {\n\t\treturn s.understand(raw)"},
	}}
}

func recorded() Defence {
	return Defence{Name: "what an agent sends is on record before it goes on", Build: unseenBuild, Edits: []Edit{
		{"runner/mcpproxy/passage.go", "if len(x.call.raw) > 0 {\n\t\tx.record", "if len(x.call.raw) < 0 {\n\t\tx.record"},
		{"runner/mcpproxy/link.go", "l.record(evidence.Frame{Dir: evidence.ToServer, Raw: c.raw, Peer: &peer})", "_ = peer"},
	}}
}

func goHTTP() Defence {
	return Defence{Name: "requests are read by Go's net/http, and written anew", Kept: "no line of ours reads headers or chunks; what is refused there reaches no server"}
}

func noModel() Defence {
	return Defence{Name: "models are asked below their providers' URLs alone", Kept: "tests of runner/model hold it against these and more; here is nothing but servers behind the relay"}
}

func countedFrames() Defence {
	return Defence{Name: "what a server sends is counted", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/allowance.go", "return sum <= t.maxFrames && bytes <= t.maxBytes", "return sum <= t.maxFrames || bytes > 0",
	}}}
}

func shortLines() Defence {
	return Defence{Name: "a server is ended for a line that is too long", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/process.go", "k.halt(false, err)\n\t\t_ = k.proc.Signal(process.Kill)", "_ = process.Kill",
	}}}
}

func typedIDs() Defence {
	return Defence{Name: "ids of another type are other ids", Build: wireBuild, Edits: []Edit{
		{"runner/mcpproxy/message.go", `return id{key: "s" + jsontext.Text(raw)`, `return id{key: "n" + jsontext.Text(raw)`},
		{"runner/capture/canonical.go", "return jsonvalue.Canonical(raw)\n\tcase c == '-'", "return jsonvalue.NumberForm(text(raw)), true\n\tcase c == '-'"},
	}}
}

func firstAnswer() Defence {
	return Defence{Name: "the first answer counts", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", "r := c.close(id, NoteDuplicateResponse)\n\tif r == nil {",
		"r := c.close(id, NoteDuplicateResponse)\n\tif r == nil && c.closed[id] != nil && f.Synthetic == \"\" {\n\t\tr = c.closed[id]\n\t}\n\tif r == nil {",
	}}}
}

func conversationsApart() Defence {
	return Defence{Name: "an answer is of its own conversation", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", "func (c *collector) answer(f evidence.Frame, m message) {\n", `func (c *collector) answer(f evidence.Frame, m message) {
	if len(c.open[requestID{connID{f.Server, f.Conn}, m.key}]) == 0 {
		for other := range c.open {
			if other.key == m.key {
				f.Server, f.Conn = other.server, other.conn
			}
		}
	}
`,
	}}}
}

func inOrder() Defence {
	return Defence{Name: "an answer is to what was asked before it", Kept: "no line says so: frames are read in their order, and what answers nothing is kept for nobody"}
}

func agentsAnswers() Defence {
	return Defence{Name: "an agent's answers are its own", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", "case !toServer && !asks:", "case !asks:",
	}}}
}

func cancelled() Defence {
	return Defence{Name: "what was cancelled stays so", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", `case toServer && m.method == "notifications/cancelled":`, `case toServer && m.method == "notifications/never":`,
	}}}
}

func timed() Defence {
	return Defence{Name: "a request has its time", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/inflight.go", "if !ex.endless {", "if ex.endless {",
	}}}
}

func compared() Defence {
	return Defence{Name: "lists of tools are compared", Build: wireBuild, Edits: []Edit{{
		"runner/capture/changes.go", "if before.tool.Digest == after.tool.Digest {", "if before.tool.Digest != \"\" {",
	}}}
}

func oneOrigin() Defence {
	return Defence{Name: "remote servers are of one origin", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/upstream.go", "if origin(a) == origin(b) {\n\t\treturn true", "if origin(a) == origin(b) || u.Remote {\n\t\treturn true",
	}}}
}

func fewValues() Defence {
	return Defence{Name: "a message has so many values", Build: wireBuild, Edits: []Edit{{
		"runner/capture/collector.go", "case isIntricate(f.Raw):", "case isIntricate(nil):",
	}}}
}

func boundedMemory() Defence {
	return Defence{Name: "messages that are held at once have so many bytes", Kept: "how much is held without it depends on how busy the machine is: tests of runner/mcpproxy have answers that nobody reads"}
}

func headersInTime() Defence {
	return Defence{Name: "a request's headers have their time", Build: wireBuild, Edits: []Edit{{
		"runner/mcpproxy/serve.go", "ReadHeaderTimeout: headerTimeout,", "ReadHeaderTimeout: 100 * headerTimeout,",
	}}}
}

func fewConnections() Defence {
	return Defence{Name: "an agent has so many connections", Build: wireBuild, Edits: []Edit{
		{"runner/mcpproxy/serve.go", "netutil.LimitListener(l, p.limits.Conns)", "netutil.LimitListener(l, 16*p.limits.Conns)"},
		{"runner/guest/guard.go", "maxInbound    = 128 ", "maxInbound    = 4096 "},
	}}
}
