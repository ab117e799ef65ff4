package stub

import (
	"slices"

	"github.com/waza-isolate/waza/model/dialect"
)

// tokenLimit is what models are said to take, of input and of output.
const tokenLimit = 1_000_000

// list is all models, or the one named, in the dialect's shape; false where there is
// none of that name.
func (s *Script) list(name dialect.Name, model string) (any, bool) {
	if model != "" {
		return describeModel(name, model), slices.Contains(s.models, model)
	}
	all := []any{}
	for _, known := range s.models {
		all = append(all, describeModel(name, known))
	}
	switch name {
	case dialect.Generate:
		return object{"models": all}, true
	case dialect.Messages:
		return object{"data": all, "has_more": false, "first_id": s.models[0], "last_id": s.models[len(s.models)-1]}, true
	default:
		return object{"object": "list", "data": all}, true
	}
}

func describeModel(name dialect.Name, model string) object {
	switch name {
	case dialect.Generate:
		return object{
			"name": "models/" + model, "displayName": model, "version": "001",
			"inputTokenLimit": tokenLimit, "outputTokenLimit": tokenLimit,
			"supportedGenerationMethods": []string{"generateContent", "streamGenerateContent", "countTokens"},
		}
	case dialect.Messages:
		return object{"type": "model", "id": model, "display_name": model, "created_at": "2023-11-14T22:13:20Z"}
	default:
		return object{"id": model, "object": "model", "created": created, "owned_by": "script"}
	}
}

// count is how many tokens a request has, in the dialect's shape.
func count(r *request) any {
	if r.dialect == dialect.Generate {
		return object{"totalTokens": tokens(r.size)}
	}
	return object{"input_tokens": tokens(r.size)}
}
