package proxy

import (
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Injection is a text that the agent finds in results of a tool, where an attacker would
// have put it.
type Injection struct {
	Number int // in the frames and events that tell of it
	Tool   string
	Text   string
	Match  string // what some text of a result must contain; empty for every result
}

// injection is an Injection with the block of content that it adds.
type injection struct {
	Injection
	block []byte
}

// injections are those of a server, or of one call.
type injections []injection

func newInjections(all []Injection) (prepared injections) {
	for _, one := range all {
		block, _ := evidence.Marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", one.Text})
		prepared = append(prepared, injection{one, block})
	}
	return prepared
}

// of returns those for the result of a request.
func (in injections) of(m message) injections {
	if m.kind != request || m.method != methodCallTool {
		return nil
	}
	var own injections
	for _, one := range in {
		if one.Tool == m.name {
			own = append(own, one)
		}
	}
	return own
}

// inject adds to the results in a message what called says of their ids, and returns the
// numbers of what it added. Every other byte stays.
func inject(raw []byte, batch bool, called func(jsonrpc.ID) injections) ([]byte, []int) {
	var added []edit
	var numbers []int
	for object := range objects(raw, batch) {
		f, _ := jsonrpc.Read(object)
		own := called(f.ID)
		if len(own) == 0 || f.Result == nil || f.Error != nil {
			continue
		}
		content, ok := contentOf(f.Result)
		if !ok {
			continue
		}
		if block, some := own.blocks(content); len(some) > 0 {
			end := place(raw, content).to - 1
			added = append(added, edit{end, end, block})
			numbers = append(numbers, some...)
		}
	}
	return edited(raw, added), numbers
}

// contentOf returns the list of content of a tool's result that is no error. Where a key is
// there twice the last one counts, as most parsers have it.
func contentOf(result []byte) (content []byte, ok bool) {
	failed := false
	for key, value := range jsontext.Members(result) {
		switch key {
		case "content":
			content = value
		case "isError":
			failed = string(value) != "false" // else it is no result
		}
	}
	return content, !failed && len(content) > 0 && content[0] == '['
}

// blocks returns those that belong into a list of content, as they are to stand before its
// end.
func (in injections) blocks(content []byte) (text []byte, numbers []int) {
	first := true
	for range jsontext.Elements(content) {
		first = false
		break
	}
	for _, one := range in {
		if one.Match != "" && !says(content, one.Match) {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		first = false
		text = append(text, one.block...)
		numbers = append(numbers, one.Number)
	}
	return text, numbers
}

// says reports whether some text of a list of content contains what.
func says(content []byte, what string) bool {
	for block := range jsontext.Elements(content) {
		for key, value := range jsontext.Members(block) {
			if key == "text" && len(value) > 0 && value[0] == '"' && strings.Contains(jsontext.Text(value), what) {
				return true
			}
		}
	}
	return false
}
