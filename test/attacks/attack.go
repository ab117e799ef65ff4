// Package attacks tries attacks by servers, agents and graders' programs: those of the
// certificate, which package probe lists, and its own. Each has the promise that the attack
// tries to break, the defense that stops it, and how to detect from outside whether it
// succeeded. The tests run every attack with the real executable on a real engine, and again
// with the defense removed, where it must succeed: a suite in which nothing could ever
// succeed would show nothing. Defenses are removed by constants of package defence.
//
// The attackers are the program in directory hostile and, as process 1 of a container,
// package hostileguest. Package part holds what they share with this package.
package attacks

import (
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// Role is the kind of program that attacks.
type Role string

const (
	Server Role = "server"
	Agent  Role = "agent"
	Both   Role = "agent and server"
	Grader Role = "grader's program"
	// Stranger is a file in a directory where waza is started, that the command line does not name, or a
	// cassette, which it names.
	Stranger Role = "stranger's file"
)

// Attack is one attack, with how the suite carries it out and judges it.
type Attack struct {
	probe.Attack
	As Role

	// In names another attack whose trial this one shares. If it is empty, the attack has a
	// trial of its own, whose task has the attack's name.
	In string
	// Task changes the task of the trial. By default, an agent calls the tool poke of the
	// server evil, and both are the hostile program.
	Task func(Ground, *eval.Task)
	// Alone is set if the attack needs a run of its own.
	Alone *Alone
	// Browse opens the report of the run in a browser.
	Browse bool
	// Won reports whether the attack succeeded, and describes the evidence.
	Won func(Scene) (bool, string)
	// Tried reports whether the attack took place, for attacks where Won is false in either
	// case. Nil means that it always does.
	Tried func(Scene) bool
}

// Alone describes a run of its own for an attack that aims at the runner or needs another
// eval.
type Alone struct {
	Eval    func(Ground, *eval.Eval) // changes the eval; may be nil
	Args    []string                 // additional arguments of waza run
	Kill    bool                     // kill waza when a process of the trial lingers
	Hostile bool                     // process 1 of containers is package hostileguest
	// Engine changes the requests to the engine that create a container. It may be nil.
	Engine func(create []byte) []byte
}

// All returns all attacks.
func All() []Attack {
	return slices.Concat(
		certificateAttacks(),
		networkAttacks(),
		kernelAttacks(),
		fileAttacks(),
		outlivingAttacks(),
		ambiguousAttacks(),
		hidingAttacks(),
		routingAttacks(),
		forgingAttacks(),
		awayAttacks(),
		floodingAttacks(),
		takeoverAttacks(),
		guaranteeAttacks(),
		frontingAttacks(),
		leakingAttacks(),
		foundAttacks(),
		modelAttacks(),
		leftoverAttacks(),
		unreadableAttacks(),
		bombAttacks(),
		sayingAttacks(),
		outputAttacks(),
		hugeAttacks(),
		checkAttacks(),
		cassetteAttacks(),
	)
}

// entry describes an attack of the suite alone.
func entry(name, goal string, promise probe.Promise, without probe.Defence) probe.Attack {
	return probe.Attack{Name: name, Goal: goal, Promise: promise, Without: without}
}

// taskOf returns the task whose trial contains the attack.
func (a Attack) taskOf() string {
	if a.In != "" {
		return a.In
	}
	return a.Name
}
