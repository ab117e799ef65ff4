package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/runner/process"
)

// Classes of a [ProbeError].
var (
	ErrNotStarted   = errors.New("did not start")
	ErrExited       = errors.New("exited before it answered")
	ErrNoAnswer     = errors.New("did not answer in time")
	ErrRefused      = errors.New("answered with an error")
	ErrUnauthorized = errors.New("wants authorization")
)

// ProbeError says why a server is not usable.
type ProbeError struct {
	Server string
	Class  error         // one of the classes above
	Cause  error         // more about it; may be nil
	Exit   *process.Exit // where the class is ErrExited and the exit is known
	Stderr string        // the end of what it wrote there
}

// Error names the server, the reason, and the last lines of its stderr.
func (e *ProbeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %q %v", e.Server, e.Class)
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if last := strings.TrimSpace(e.Stderr); last != "" {
		fmt.Fprintf(&b, "; its stderr ends:\n%s", last)
	}
	return b.String()
}

func (e *ProbeError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Cause}
}

// Era is how a server begins a conversation.
type Era string

const (
	EraSessions  Era = "sessions"  // initialize, up to 2025-11-25
	EraStateless Era = "stateless" // server/discover, from 2026-07-28
)

// ServerInfo is what a server said of itself. All of it is the server's word.
type ServerInfo struct {
	Name, Version   string
	ProtocolVersion string
	Era             Era
}

// Probe checks that a server answers. It starts a process of its own, asks it to
// initialize and, where that is refused, asks another process to discover; the
// processes have ended when it returns. Server.Start bounds the time until it
// answered, and Limits.Grace the time to see it off. What is said goes to rec as events of kind "health". Errors are of type
// [*ProbeError].
func Probe(ctx context.Context, rec Recorder, limits Limits, s Server) (ServerInfo, error) {
	if err := s.validate(); err != nil {
		return ServerInfo{}, err
	}
	if !limits.valid() {
		return ServerInfo{}, errors.New("mcpproxy: a limit is negative")
	}
	p := newProber(rec, limits.withDefaults(), s)
	ctx, cancel := context.WithTimeoutCause(ctx, p.server.Start, fmt.Errorf("%v have passed", p.server.Start))
	defer cancel()
	info, err := p.ask(ctx, EraSessions)
	if errors.Is(err, ErrRefused) {
		var second error
		if info, second = p.ask(ctx, EraStateless); second != nil {
			p.note(err.Error(), nil)
			return ServerInfo{}, err // the first says more: few servers know discover alone
		}
		err = nil
	}
	if err != nil {
		p.note(err.Error(), nil)
		return ServerInfo{}, err
	}
	p.note("answers", map[string]any{"name": info.Name, "version": info.Version, "protocol": info.ProtocolVersion})
	return info, nil
}

type prober struct {
	server Server
	limits Limits
	sink   *stderrSink
	notes  *notes
}

func newProber(rec Recorder, limits Limits, s Server) *prober {
	p := &prober{server: s.withDefaults(limits), limits: limits, notes: newNotes(rec, s.Name, limits.Notes)}
	p.sink = newStderrSink(s.Stderr, limits.Stderr, func() {
		p.note(fmt.Sprintf("only the first %d bytes of stderr are kept", limits.Stderr), nil)
	})
	return p
}

func (p *prober) note(message string, data map[string]any) { p.notes.add("health", message, data) }

// probeID is a string, so that no server takes it for an id of its own.
const probeID = `"waza-probe"`

const clientInfo = `{"name":"waza","version":"1"}`

func question(era Era) string {
	if era == EraStateless {
		return `{"jsonrpc":"2.0","id":` + probeID + `,"method":"` + methodDiscover + `","params":{"_meta":{"` +
			metaVersion + `":"` + statelessVersion + `","io.modelcontextprotocol/clientInfo":` + clientInfo +
			`,"` + metaCapabilities + `":{}}}}`
	}
	return `{"jsonrpc":"2.0","id":` + probeID + `,"method":"` + methodInitialize + `","params":{"protocolVersion":"` +
		lastSessionVersion + `","capabilities":{},"clientInfo":` + clientInfo + `}}`
}

// ask asks the era's first question.
func (p *prober) ask(ctx context.Context, era Era) (ServerInfo, error) {
	if p.server.passes() {
		return p.askHTTP(ctx, era)
	}
	return p.askProcess(ctx, era)
}

// askProcess starts a process, asks it the era's first question, and sees it off.
func (p *prober) askProcess(ctx context.Context, era Era) (ServerInfo, error) {
	var (
		log     = &stderr{sink: p.sink}
		answers = make(chan []byte, 1)
		ended   = make(chan ending, 1)
	)
	fail := func(class, cause error, exit *process.Exit) (ServerInfo, error) {
		return ServerInfo{}, &ProbeError{Server: p.server.Name, Class: class, Cause: cause, Exit: exit, Stderr: log.lastWords()}
	}
	// The process outlives ctx by the time it takes to see it off.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	starting := context.AfterFunc(ctx, release)
	child, err := startChild(life, childConfig{
		launch:  p.server.Launch,
		starts:  p.server.Start,
		grace:   p.limits.Grace,
		message: p.server.Message,
		memory:  &budget{left: p.limits.Memory},
		stderr:  log,
		line:    func(line []byte) { p.heard(line, answers) },
		ended:   func(e ending) { ended <- e },
	})
	starting()
	if err != nil {
		return fail(ErrNotStarted, err, nil)
	}
	defer func() { <-child.gone }()
	defer child.stop()

	p.note("asked", map[string]any{"raw": question(era)})
	_ = child.send(ctx, []byte(question(era))) // where it fails the process ends, or time does
	var e ending
	select {
	case answer := <-answers:
		return p.read(era, answer, fail)
	case e = <-ended:
	case <-ctx.Done():
		return fail(ErrNoAnswer, context.Cause(ctx), nil)
	}
	select {
	case answer := <-answers: // its last words
		return p.read(era, answer, fail)
	default:
		return fail(ErrExited, errors.New(e.String()), e.known())
	}
}

// failure makes a [ProbeError] of what went wrong.
type failure func(class, cause error, exit *process.Exit) (ServerInfo, error)

func (p *prober) read(era Era, answer []byte, fail failure) (ServerInfo, error) {
	info, err := readAnswer(era, answer)
	if err != nil {
		return fail(ErrRefused, err, nil)
	}
	return info, nil
}

// heard notes a line and takes the first answer to the probe. Whatever else a
// server says before it is its own affair.
func (p *prober) heard(line []byte, answers chan<- []byte) {
	p.note("said", map[string]any{"raw": clip(line), "bytes": len(line)})
	if !isAnswer(line) {
		return
	}
	select {
	case answers <- line:
	default:
	}
}

// isAnswer says whether a message answers the probe.
func isAnswer(raw []byte) bool {
	env, err := parse(raw)
	return err == nil && !env.batch && env.messages[0].kind == response && env.messages[0].id.key == probeKey()
}

func probeKey() string {
	id, _ := parseID([]byte(probeID))
	return id.key
}

func (e ending) known() *process.Exit {
	if e.err != nil {
		return nil
	}
	return &e.exit
}

// answer is both eras' first answer, as far as a probe reads it.
type answer struct {
	Result *struct {
		ProtocolVersion   string   `json:"protocolVersion"`
		SupportedVersions []string `json:"supportedVersions"`
		ServerInfo        identity `json:"serverInfo"`
		Meta              struct {
			ServerInfo identity `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type identity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func readAnswer(era Era, line []byte) (ServerInfo, error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return ServerInfo{}, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if a.Error != nil {
		return ServerInfo{}, fmt.Errorf("%d %s", a.Error.Code, clip([]byte(a.Error.Message)))
	}
	if a.Result == nil {
		return ServerInfo{}, errors.New("its answer has no result")
	}
	info := ServerInfo{Era: era, ProtocolVersion: a.Result.ProtocolVersion}
	who := a.Result.ServerInfo
	if era == EraStateless {
		who = a.Result.Meta.ServerInfo
		if len(a.Result.SupportedVersions) > 0 {
			info.ProtocolVersion = a.Result.SupportedVersions[0]
		}
	}
	if info.ProtocolVersion == "" {
		return ServerInfo{}, errors.New("its answer names no protocol version")
	}
	info.Name, info.Version = who.Name, who.Version
	return info, nil
}
