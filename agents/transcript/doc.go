// Package transcript reads the JSON lines in which an agent reports what it does, and maps
// them to waza's events: a mapping of paths says which lines mean what. It also writes such
// events, for the agents that come with waza.
//
// It is pure, and takes the agent's word for everything: what was really called is
// captured elsewhere. What it reads is hostile: lines are bounded, none is held in
// more than one copy, and one that cannot be read is reported and passed over.
package transcript
