package proxy

import (
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Injection is an attacker's text that the proxy adds to the results of a tool.
type Injection struct {
	Number int // identifies it in frames and events
	Tool   string
	Text   string
	Match  string // text that a result must contain; empty for every result
}

// block returns the content block that is added.
func (i Injection) block() []byte {
	block, _ := evidence.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", i.Text})
	return block
}

// injections holds the injections of one call.
type injections []Injection

// injectionsFor returns the injections for the result of a request.
func (s Server) injectionsFor(m message) injections {
	if m.kind != request || m.method != methodCallTool {
		return nil
	}
	var own injections
	for _, one := range s.Inject {
		if one.Tool == m.name {
			own = append(own, one)
		}
	}
	return own
}

// inject adds to each result in a message the injections that called returns for its id,
// and returns their numbers. All other bytes are unchanged.
func inject(raw []byte, batch bool, called func(jsonrpc.ID) injections) ([]byte, []int) {
	var added []edit
	var numbers []int
	for object := range objects(raw, batch) {
		f, _ := jsonrpc.Read(object)
		own := called(f.ID)
		if len(own) == 0 || f.Result == nil || len(f.Error) > 0 && string(f.Error) != "null" {
			continue
		}
		content, ok := contentOf(f.Result)
		if !ok {
			continue
		}
		if block, some := own.blocks(content); len(some) > 0 {
			end := spanOf(raw, content).to - 1
			added = append(added, edit{end, end, block})
			numbers = append(numbers, some...)
		}
	}
	return applyEdits(raw, added), numbers
}

// contentOf returns the content array of a tool result, and false if there is none or the
// result is an error. The last of duplicate keys counts, as in most parsers.
func contentOf(result []byte) (content []byte, ok bool) {
	failed := false
	for key, value := range jsontext.Members(result) {
		switch key {
		case "content":
			content = value
		case "isError":
			failed = string(value) != "false" // anything other than false is treated as an error
		}
	}
	return content, !failed && len(content) > 0 && content[0] == '['
}

// blocks returns the text to insert at the end of a content array, and the numbers of the
// injections in it.
func (in injections) blocks(content []byte) (text []byte, numbers []int) {
	first := true
	for range jsontext.Elements(content) {
		first = false
		break
	}
	for _, one := range in {
		if one.Match != "" && !containsText(content, one.Match) {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		first = false
		text = append(text, one.block()...)
		numbers = append(numbers, one.Number)
	}
	return text, numbers
}

// containsText reports whether a text block of a content array contains what.
func containsText(content []byte, what string) bool {
	for block := range jsontext.Elements(content) {
		for key, value := range jsontext.Members(block) {
			if key == "text" && len(value) > 0 && value[0] == '"' && strings.Contains(jsontext.Text(value), what) {
				return true
			}
		}
	}
	return false
}
