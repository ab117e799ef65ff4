// Package judge asks models that judge, over OpenAI's chat completions API.
//
// It takes a question as it is on record and brings an answer to be put on record. It
// neither writes questions nor reads what answers say: package grading does both.
//
// The endpoint is a stranger: its certificate is verified, its redirects are not
// followed, what it sends is bounded, and nothing of the environment says how it is
// reached. The key is in the header of requests and nowhere else.
package judge
