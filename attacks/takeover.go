package attacks

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/guest"
	"github.com/waza-isolate/waza/runner/spec"
)

// guestThatFloods has process 1 write frames of the mux of its own, for two seconds at
// most, beside the second program that it starts: the first is for the look that the
// runner has at a server before the trial. Which it writes the program's last argument
// says.
func guestThatFloods() []Edit {
	return []Edit{
		{"runner/guest/serve_linux.go", "\treturn &servant{session: session,", "\tfloodPipe = pipe\n\treturn &servant{session: session,"},
		{"runner/guest/exec_linux.go", "\tp, err := s.start(req)\n", "\tgo flood(req.Args)\n\tp, err := s.start(req)\n"},
		{"runner/guest/exec_linux.go", "import (\n", "import (\n\t\"sync/atomic\"\n"},
		{"runner/guest/exec_linux.go", "// exec runs a program and carries its stdio", `var (
	floodPipe io.Writer
	programs  atomic.Int64
)

func flood(args []string) {
	name := args[len(args)-1]
	if programs.Add(1) != 2 {
		return
	}
	for i, until := uint32(0), time.Now().Add(2*time.Second); i < 100_000 && time.Now().Before(until); i++ {
		frame := make([]byte, muxHeaderSize)
		fill := func(kind, flags byte, stream, length uint32) {
			frame[1], frame[3] = kind, flags
			for at := range 4 {
				frame[4+at], frame[8+at] = byte(stream>>(24-8*at)), byte(length>>(24-8*at))
			}
		}
		switch name {
		case "mux-streams":
			fill(muxWindowUpdate, muxSYN, 2*i+1000, 0)
		case "mux-pings":
			fill(muxPing, muxSYN, 0, i)
		case "mux-oversized":
			fill(muxData, 0, 1_000_000, 1<<30)
		case "mux-garbage":
			copy(frame, "GET / HTTP/1")
		default:
			return
		}
		if _, err := floodPipe.Write(frame); err != nil {
			return
		}
	}
}

// exec runs a program and carries its stdio`},
	}
}

func guarded() Defence {
	return Defence{Name: "a guard before the mux", Build: wireBuild, Edits: append(guestThatFloods(), Edit{
		"runner/guest/guard.go", "func (g *guard) check() error {\n", "func (g *guard) check() error {\n\tif g != nil {\n\t\treturn nil\n\t}\n",
	})}
}

// takeoverAttacks are by guests that were taken over, each beside a server of its own.
func takeoverAttacks() []Attack {
	guarded := guarded()
	yamux := Defence{Name: "frames of one version", Kept: "the guard and yamux each refuse others: tests of runner/guest show it"}
	all := []Attack{
		{Name: "mux-streams", Tries: "open 100,000 streams to the runner", Without: guarded, Alone: &Alone{Guest: guestThatFloods()}},
		{Name: "mux-pings", Tries: "have the runner answer 100,000 pings", Without: guarded},
		{Name: "mux-oversized", Tries: "announce frames of a gigabyte", Without: guarded},
		{Name: "mux-garbage", Tries: "write to the runner what is no frame", Without: yamux},
	}
	names := make([]string, len(all))
	for i := range all {
		a := &all[i]
		names[i] = a.Name
		a.As, a.Promise, a.Won, a.Tried = Server, OthersGoOn, heardOut, Told
		if i > 0 {
			a.In = all[0].Name
		}
	}
	all[0].Task = func(g Ground, t *spec.Task) {
		t.MCPServers = map[string]*mcpconfig.Server{}
		for _, name := range names {
			t.MCPServers[name] = &mcpconfig.Server{Image: g.Image, Command: program, Args: []string{"server", name}, Timeout: 5, Memory: "128m", Disk: "64m"}
		}
		t.Inputs.Prompt = all[0].Name
	}
	return all
}

// heardOut says whether a guest that broke the rules was heard to its end: the session
// with it should have ended, and said why. The runner should have come to its own end, and
// within bounds.
func heardOut(s Scene) (bool, string) {
	if s.Run.Exit < 0 || s.Run.PeakRSS > most {
		return true, fmt.Sprintf("the runner had %d MiB, and ended with %d", s.Run.PeakRSS>>20, s.Run.Exit)
	}
	events, _ := s.Dir.Events()
	for _, e := range events {
		if e.Where == s.Attack && strings.Contains(e.Message, guest.ErrProtocol.Error()) {
			return false, e.Message
		}
	}
	return true, "nobody ended it"
}
