package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// talk is a probe's conversation with a server. Its errors are of type
// [*ProbeError].
type talk interface {
	// ask sends a request and returns its answer. first says that the server may
	// not be there yet.
	ask(ctx context.Context, request string, first bool) ([]byte, error)
	tell(ctx context.Context, notification string) error
	// listen is for the time in which nothing is asked. It says how the server ended,
	// where it does before ctx.
	listen(ctx context.Context) error
	fail(class, cause error) error
}

// handshake asks what a probe wants to know.
func (p *prober) handshake(ctx context.Context, era Era, t talk) (ServerInfo, error) {
	raw, err := t.ask(ctx, question(era), true)
	if err != nil {
		return ServerInfo{}, err
	}
	info, err := readAnswer(era, raw)
	if err != nil {
		return ServerInfo{}, t.fail(ErrRefused, err)
	}
	p.hello = raw
	if p.server.Tools == nil {
		return info, nil
	}
	if era == EraSessions {
		if err := t.tell(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			return ServerInfo{}, err
		}
	}
	return info, p.checkTools(ctx, era, t)
}

// checkTools holds that the server has the tools that the agent is to see: a name
// that is spelt wrong would hide a tool and say nothing.
func (p *prober) checkTools(ctx context.Context, era Era, t talk) error {
	l, err := p.list(ctx, era, t, catalog.Tools)
	if err != nil {
		return err
	}
	if l.Absent || len(l.Entries) == 0 && l.Partial != "" {
		return t.fail(ErrTools, errors.New("it lists no tools"))
	}
	var there []string
	for _, e := range l.Entries {
		there = append(there, e.Key)
	}
	missing := slices.DeleteFunc(slices.Clone(p.server.Tools), func(name string) bool { return slices.Contains(there, name) })
	if len(missing) > 0 {
		return &ProbeError{Server: p.server.Name, Class: ErrTools, Cause: fmt.Errorf("mcp_servers.%s.tools names %s; the server has %s",
			p.server.Name, quoted(missing), quoted(there))}
	}
	return nil
}

// maxQuoted is how many names a sentence lists.
const maxQuoted = 50

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(text.Some(names, maxQuoted, func(name string) string { return text.Quote(name, 128) }), ", ")
}

// probeID begins the ids of a probe's requests. They are strings, so that no server
// takes them for ids of its own.
const probeID = "waza-probe"

const clientInfo = `{"name":"waza","version":"1"}`

// statelessMeta is what every request of a revision without sessions has.
const statelessMeta = `"_meta":{"` + metaVersion + `":"` + statelessVersion +
	`","io.modelcontextprotocol/clientInfo":` + clientInfo + `,"` + metaCapabilities + `":{}}`

func question(era Era) string {
	const head = `{"jsonrpc":"2.0","id":"` + probeID + `","method":"`
	if era == EraStateless {
		return head + methodDiscover + `","params":{` + statelessMeta + `}}`
	}
	return head + methodInitialize + `","params":{"protocolVersion":"` +
		lastSessionVersion + `","capabilities":{},"clientInfo":` + clientInfo + `}}`
}

// isAnswer says whether a message answers a request of the probe's.
func isAnswer(raw []byte, request string) bool {
	env, err := parse(raw)
	asked, _ := parse([]byte(request))
	return err == nil && !env.batch && env.messages[0].kind == response && env.messages[0].id.Key == asked.messages[0].id.Key
}

// readAnswer reads both eras' first answer, as far as a probe does.
func readAnswer(era Era, line []byte) (ServerInfo, error) {
	m, err := jsonrpc.Read(line)
	switch {
	case err != nil:
		return ServerInfo{}, fmt.Errorf("its answer cannot be read: %w", err)
	case m.Error != nil:
		return ServerInfo{}, fmt.Errorf("%d %s", errorCode(m.Error), clip([]byte(jsontext.Text(jsontext.Member(m.Error, "message")))))
	case m.Result == nil:
		return ServerInfo{}, errors.New("its answer has no result")
	}
	info := ServerInfo{Era: era, ProtocolVersion: jsontext.Text(jsontext.Member(m.Result, "protocolVersion"))}
	who := jsontext.Member(m.Result, "serverInfo")
	if era == EraStateless {
		who = jsontext.Member(jsontext.Member(m.Result, "_meta"), "io.modelcontextprotocol/serverInfo")
		for version := range jsontext.Elements(jsontext.Member(m.Result, "supportedVersions")) {
			info.ProtocolVersion = jsontext.Word(version)
			break
		}
	}
	if info.ProtocolVersion == "" {
		return ServerInfo{}, errors.New("its answer names no protocol version")
	}
	info.ProtocolVersion = clip([]byte(info.ProtocolVersion))
	info.Name = clip([]byte(jsontext.Text(jsontext.Member(who, "name"))))
	info.Version = clip([]byte(jsontext.Text(jsontext.Member(who, "version"))))
	return info, nil
}
