package eval

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// Playing selects what a run plays from a cassette.
type Playing struct {
	Cassette string          `json:"cassette,omitempty"` // directory; empty for config.cassette
	Play     []cassette.Kind `json:"play,omitempty"`     // kinds of sides that are played; empty for all kinds in the cassette
	OnMiss   string          `json:"on_miss,omitempty"`  // with [MissLive], the real server answers requests that the cassette cannot; otherwise such a request ends the trial
}

// PlayNone in [Playing] plays nothing, not even from the eval's cassette.
const PlayNone cassette.Kind = "none"

// Playable returns the values that a command line can choose to play. Judges are not among them, since they
// are models.
func Playable() []cassette.Kind {
	return []cassette.Kind{cassette.Servers, cassette.Models, cassette.Commands, PlayNone}
}

// What happens if the cassette has no answer.
const (
	MissFail = "fail" // the trial ends
	MissLive = "live" // the real server is asked
)

// readCassette reads the cassette of the options or, failing that, of the eval.
func readCassette(doc *strictyaml.Document, e *Eval, p Playing) {
	at, dir := strictyaml.Path{"config", "cassette"}, p.Cassette
	if dir == "" && e.Config.Cassette != "" {
		dir = e.besides(e.Config.Cassette)
	}
	if slices.Contains(p.Play, PlayNone) {
		return
	}
	if dir == "" {
		if len(p.Play) > 0 || p.OnMiss != "" {
			doc.Problemf(at, "--play and --on-miss are about a cassette, and there is none; give --cassette DIR too, or set config.cassette")
		}
		return
	}
	c, err := cassette.Read(dir)
	if err != nil {
		doc.Problemf(at, "%s", flat(err))
		return
	}
	e.Cassette, e.play, e.MissLive = c, p.Play, p.OnMiss == MissLive
	for _, kind := range p.Play {
		if len(c.Names(kind)) == 0 && (kind != cassette.Models || len(c.Names(cassette.Judges)) == 0) {
			doc.Problemf(at, "cassette %s has no %s, which --play names; record them, or leave it out", dir, kind)
		}
	}
	for _, one := range append(slices.Collect(maps.Values(c.Tasks)), c) {
		if err := checkSideFaults(one); err != nil {
			doc.Problemf(at, "cassette %s: %s", dir, flat(err))
		}
		for _, side := range one.Sides[cassette.Servers] {
			if err := mock.CheckSide(side); err != nil {
				doc.Problemf(at, "cassette %s: %s", dir, flat(err))
			}
		}
	}
	for _, file := range c.Files {
		e.MockFiles = append(e.MockFiles, filepath.Join(dir, filepath.FromSlash(file)))
	}
}

// played reports whether all requests to the eval's servers are answered from its cassette.
func (s servers) played() bool { return s.eval.Plays(cassette.Servers) && !s.eval.MissLive }

// playedCommands returns the commands of a task together with those of the cassette, which replace mocks with
// the same names.
func playedCommands(e *Eval, task string, all []CommandMock) ([]CommandMock, error) {
	if !e.Plays(cassette.Commands) {
		return all, nil
	}
	all = slices.Clone(all)
	for _, name := range e.Cassette.Names(cassette.Commands) {
		side, err := e.Cassette.Side(cassette.Commands, task, name)
		if err != nil {
			return nil, err
		}
		if side == nil {
			continue
		}
		if !isCommandName(name) {
			return nil, fmt.Errorf("%q is not a valid name of a program", name)
		}
		for i, e := range side.Entries {
			for _, a := range e.All() {
				if jsontext.Unmarshal(a.Value, new(cmdmock.Answer)) != nil {
					return nil, fmt.Errorf("%s: the value of an answer must be an object with stdout, stderr and exit_code of the program", side.Place(i))
				}
			}
		}
		all = slices.DeleteFunc(all, func(c CommandMock) bool { return c.Name == name })
		all = append(all, CommandMock{Name: name, side: side, played: true})
	}
	return all, nil
}
