package attacks

// Promise is what waza promises to users who run untrusted code, as a sentence.
type Promise string

const (
	NoRoute Promise = "No container has a route anywhere but to the declared names of its own trial: not to the internet, " +
		"not to the host, not to another trial, not from one server to another, not from a server to the agent."
	AllRecorded Promise = "The agent reaches a server only through the runner, so no call escapes capture, and none is taken for another's."
	NamesStay   Promise = "Names resolve only inside the trial: a question goes no further than the container's guest and the runner."
	ByPolicy    Promise = "What leaves at all leaves from the runner, through a policy, recorded."
	SecretsStay Promise = "Secrets that the runner can add on the way out are never inside a container; one that a server must hold goes to that server alone, and is redacted in everything written."
	NamedAlone  Promise = "A file that the user did not name gets nothing of the environment before the user allows it."
	NoneFetched Promise = "A command with --offline fetches no image, no package and no repository, whatever an eval names."
	NothingLeft Promise = "When the runner dies, at any moment and in any way, every container dies within seconds; and no trial outlives its end."
	CalledRight Promise = "What was not isolated is not called isolated: each run records the guarantees that were really in force."
	HostHolds   Promise = "A program in a container changes nothing of its machine, of its own process 1, nor of what was put there for it to read."
	OthersGoOn  Promise = "Whatever a trial does, the runner stays within bounds and other trials get the verdicts that they would get without it."
	InertOutput Promise = "What a program says reaches a terminal, a report or a file as text: it does nothing there."
	FairVerdict Promise = "A verdict rests on what was recorded: no agent and no server changes what a grader sees, or what it is judged by."
)

// Promises returns the promises in the order of docs/attacks.md.
func Promises() []Promise {
	return []Promise{
		NoRoute, AllRecorded, NamesStay, ByPolicy, SecretsStay, NamedAlone, NoneFetched, NothingLeft, CalledRight, HostHolds, OthersGoOn, InertOutput, FairVerdict,
	}
}
