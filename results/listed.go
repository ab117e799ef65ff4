package results

import (
	"encoding/json"

	"github.com/waza-isolate/waza/evidence"
)

// Listed is what a server had listed at the end of a trial, in short.
type Listed struct {
	SHA256 string `json:"sha256"`           // as [evidence.Catalog] has it
	Tools  int    `json:"tools"`            // that the agent was shown
	Hidden int    `json:"hidden,omitempty"` // that were kept from it
	Bytes  int    `json:"bytes"`            // of the shown ones: name, description and input schema as JSON without space
	Tokens int    `json:"tokens_estimate"`  // that they take of a model's context: a quarter of Bytes
}

// CardCatalog is a catalog of tools that a server had in some of the trials.
type CardCatalog struct {
	Trials int `json:"trials"`
	Listed
}

// bytesPerToken is about what tokenizers of models come to on English and JSON.
const bytesPerToken = 4

func listed(catalog evidence.Catalog) *Listed {
	l := &Listed{SHA256: catalog.SHA256}
	for _, tool := range catalog.Tools {
		switch {
		case tool.Removed > 0:
		case tool.Hidden:
			l.Hidden++
		default:
			l.Tools++
			l.Bytes += definitionBytes(tool)
		}
	}
	l.Tokens = tokens(l.Bytes)
	return l
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// definitionBytes is how long a tool is as a model is shown it.
func definitionBytes(tool evidence.Tool) int {
	shown, _ := evidence.Marshal(struct { // JSON that was read from JSON
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	}{tool.Name, tool.Description, tool.InputSchema})
	return len(shown)
}
