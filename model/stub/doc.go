// Package stub is a model that answers from a script, in the formats of four model APIs.
//
// Which turn a conversation is at is read from the conversation itself: the ids of
// tool calls carry the turn that made them. So a request that is sent again gets the
// same answer, and many conversations can be at it at once. Only failures that a script
// asks for are remembered, for they leave nothing in a conversation.
//
// It understands nothing: it knows no language, keeps no store, and counts tokens by
// the length of texts.
package stub
