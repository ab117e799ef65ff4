// Package script is a deterministic agent: it follows a task's script step by step and
// speaks MCP to the servers of mcp.json. Examples, tests and benchmarks stand on it where
// a model would answer differently each time.
//
// It is not a language. It has no conditions and no functions, it does not retry,
// and it does not answer what a server asks of its client (sampling, elicitation,
// roots). It holds no opinion on what it got: graders do.
//
// # Steps
//
// A script is a list of steps. Each has one of these keys, and `as: NAME` beside
// it where the step gives a value that later steps use.
//
//	call: {server, tool, arguments, expect, timeout, tell}
//	    Calls a tool. arguments is an object, {} where left out. expect is ok
//	    (default), tool_error, protocol_error, transport_error, timeout or any.
//	    timeout is 5m where left out. With tell: false the transcript does not tell
//	    of the call.
//	    Value: {text, json, structured, result, is_error, outcome, code}
//	tools: {server, timeout}
//	    Lists a server's tools. Value: a list of {name, description}
//	read: {path}
//	    Reads a file of the workspace, UTF-8 of up to 4 MiB. Value: {text, json}
//	write: {path, content}
//	    Writes a file of the workspace, with the directories it is in.
//	run: {command: [program, argument...], expect_exit}
//	    Runs a program in the workspace, without a shell. expect_exit is an exit
//	    code, 0 where left out, or any. Value: {stdout, stderr, exit_code, json}
//	say: TEXT
//	    Says something. What is said last is the final output.
//	claim: {server, tool, arguments, result}
//	    Puts a call into the transcript that is not made. Without server it is
//	    a call of the tool by its bare name.
//	sleep: 100ms
//	await: prompt
//	    Ends a turn of the conversation and waits for the next prompt. Where none
//	    comes the run ends there. What is said last in each turn is the final
//	    output, one below the other. Value: the prompt
//	loop: {times: N, as: NAME, steps: [...]}
//	loop: {over: LIST, as: NAME, steps: [...]}
//	    Repeats steps, at most 10,000 iterations in a run. as names the item, or
//	    the iteration's number from 1. Names given inside end with the
//	    iteration. Value: a list of what each iteration's last step gave, empty
//	    for a loop without a name
//	fail: TEXT
//	    Ends the run with an error.
//
// In these values, text is the text content joined by newlines, or the message
// of an error; json is there where text (of run: stdout) is a JSON value;
// structured and result are there where the server sent them; code is that of a
// protocol error. is_error is true with every outcome but ok.
//
// # Expressions
//
// A string of a step may hold {{ expressions }} in the language of
// github.com/expr-lang/expr, over the values named by earlier steps, prompt, and
// context. The settings as, expect, expect_exit, timeout, sleep and times are
// taken as written. A string that is one expression and nothing else stands for
// the expression's value; otherwise values are put into the text, strings as
// they are and anything else as JSON. A literal {{ is written {{ "{{" }}.
//
// An unknown name is found by [Parse]. A plain path (stock.json.items[0].id)
// keeps the digits of numbers, and fails where a part is missing; in any other
// expression numbers are 64-bit integers or floats, and a missing key is nil. now,
// keys, values and toPairs, which could differ from run to run, and fromJSON,
// which loses digits, are not there.
//
// # Transcript
//
// The events are upstream waza's: user.message with the prompt,
// tool.execution_start and tool.execution_complete around what is called, read,
// written, run and listed, assistant.message for what is said. MCP tools are
// named mcp__SERVER__TOOL, the others read_file, write_file, run_command and
// list_tools, with upstream's argument names path, file_text and command.
package script
