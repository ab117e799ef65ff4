// Package attacks lists attacks by servers, agents and graders' programs, each with the
// promise that it tries to break, the defence that stops it, and how to see from outside
// whether it succeeded. Its tests carry them out with the real executable on a real
// engine, and once more with each defence taken out, where the attack must succeed: a
// suite in which nothing could ever succeed shows nothing. What is taken out is a constant
// of package defence.
//
// What attacks is the program in hostile, and process 1 by package hostileguest; what they
// and this package all know is in part.
package attacks

import (
	"slices"

	"github.com/waza-isolate/waza/eval"
)

// Role says what kind of program attacks.
type Role string

const (
	Server Role = "server"
	Agent  Role = "agent"
	Both   Role = "agent and server"
	Grader Role = "grader's program"
)

// Attack is one attack.
type Attack struct {
	Name    string // in kebab-case, unique
	As      Role
	Tries   string // to do what, as a sentence goes on
	Promise Promise
	Without Defence // without it the attack succeeds

	// In names another attack whose trial, and so run, this one shares; empty for a trial of its
	// own, whose task has the attack's name.
	In string
	// Task changes the task of the trial; nil leaves it as it is: an agent calls the tool poke of
	// the server evil, and both are the hostile program.
	Task func(Ground, *eval.Task)
	// Alone is set where the attack needs a run of its own.
	Alone *Alone
	// Browse has a browser open the report of the run.
	Browse bool
	// Won reports whether the attack succeeded, and what shows it.
	Won func(Scene) (bool, string)
	// Tried reports whether the attack took place, for attacks where Won is false in both cases.
	// Nil means that it did.
	Tried func(Scene) bool
}

// Alone is a run of its own for an attack, because it aims at the runner or needs another eval.
type Alone struct {
	Eval    func(Ground, *eval.Eval) // changes the eval; nil leaves it as it is
	Args    []string                 // more arguments of waza run
	Kill    bool                     // kill waza once a process of the trial lingers
	Hostile bool                     // process 1 of containers attacks, as package hostileguest says
	// Engine changes requests to the engine to create a container; nil leaves them as they are.
	Engine func(create []byte) []byte
}

// All lists the attacks.
func All() []Attack {
	return slices.Concat(
		probeAttacks(),
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
		leftoverAttacks(),
		bombAttacks(),
		sayingAttacks(),
		outputAttacks(),
		hugeAttacks(),
		checkAttacks(),
	)
}

// taskOf returns the task in whose trial an attack takes place.
func (a Attack) taskOf() string {
	if a.In != "" {
		return a.In
	}
	return a.Name
}
